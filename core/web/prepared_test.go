package web_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"outboxplayground/core/lab"
	"outboxplayground/core/pg/pgtest"
	"outboxplayground/core/prepared"
	"outboxplayground/core/shop"
	"outboxplayground/core/web"
)

// doubtful leaves every order in doubt: with its event sent, or without.
type doubtful struct {
	lab.Deps
	send bool
}

func (d *doubtful) PlaceOrder(ctx context.Context, o shop.Order) error {
	tx, err := d.DB.Begin(ctx)
	if err != nil {
		return err
	}
	defer tx.Rollback(ctx) // after PREPARE it only gives the connection back
	if err := shop.Insert(ctx, tx, o); err != nil {
		return err
	}
	name := prepared.Name(d.Schema, o.EventID)
	if _, err := tx.Exec(ctx, `PREPARE TRANSACTION `+prepared.Quote(name)); err != nil {
		return err
	}
	if d.send {
		err = d.Bus.Publish(ctx, shop.OrderPlaced(o, "plain"))
	}
	if err == nil {
		err = prepared.ErrInDoubt
	}
	return err
}

// tardy has recovered nothing yet.
type tardy struct{}

func (tardy) Run(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

func doubtfulChapter(after time.Duration) lab.Chapter {
	variant := func(name string, producer func(lab.Deps) lab.Producer) lab.Variant {
		return lab.Variant{Name: name, Consumer: listener, Producer: producer}
	}
	said := func(code string) func(lab.Deps) lab.Producer {
		return func(lab.Deps) lab.Producer { return unlucky{&pgconn.PgError{Code: code}} }
	}
	logged := variant("logged", func(d lab.Deps) lab.Producer { return &doubtful{d, false} })
	logged.Recovers = func(lab.Deps) lab.Runner { return tardy{} }
	return lab.Chapter{
		Number: 9, Slug: "doubtful", Topic: "plain", InDoubtAfter: after,
		Title: lab.Text{En: "Doubt", ZhTW: "懸念"}, Question: lab.Text{En: "How many?", ZhTW: "幾封？"},
		Variants: []lab.Variant{
			variant("sent", func(d lab.Deps) lab.Producer { return &doubtful{d, true} }),
			variant("unsent", func(d lab.Deps) lab.Producer { return &doubtful{d, false} }),
			variant("locked", said("55P03")), variant("full", said("53200")), variant("named", said("42710")), logged,
		},
	}
}

// startDoubtful is a playground whose orders are prepared transactions.
func startDoubtful(t *testing.T, after time.Duration) *playground {
	t.Helper()
	p := &playground{t: t, db: pgtest.Database(t), contract: readContract(t)}
	live, err := lab.NewLive(t.Context(), lab.LiveConfig{
		Chapters: []lab.Chapter{outboxChapter(), doubtfulChapter(after)}, DatabaseURL: p.db,
		Buses: []lab.BusInfo{{Name: "inmemory", Mode: "memory", State: lab.Starting}}, Relay: true, Consumer: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	p.live = live
	p.run()
	t.Cleanup(func() { // a database with a prepared transaction cannot be dropped
		conn, err := pgx.Connect(context.Background(), p.db)
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close(context.Background())
		left, err := prepared.List(context.Background(), conn, "ch09")
		for _, x := range left {
			err = prepared.Rollback(context.Background(), conn, x.GID)
		}
		if err != nil {
			t.Error(err)
		}
	})
	server := httptest.NewServer(web.New(live, web.Options{}))
	t.Cleanup(server.Close)
	p.url = server.URL
	return p
}

// doubt places an order that is left in doubt, and waits until it is for sure.
func (p *playground) doubt(variant string) (id string) {
	p.t.Helper()
	id = uuid.NewString()
	a := p.wantProblem(p.post("/chapters/9/orders?variant="+variant+"&user_id=u1&items=A&event_id="+id, ""), http.StatusServiceUnavailable, "in_doubt")
	for _, call := range []string{"/audit/event/" + id, "/admin/prepared/" + id + "/commit", "/admin/prepared/" + id + "/rollback"} {
		if !strings.Contains(string(a.body), call) {
			p.t.Errorf("the answer does not lead to %s: %s", call, a.body)
		}
	}
	p.until("the audit says what it is", func() bool {
		trail := p.get("/audit/event/" + id + "?chapter=9")
		handled := len(trail.value("processed").([]any)) > 0
		return trail.value("valid") == false && handled == (variant == "sent")
	})
	return id
}

// Each word is right where the other is wrong, and the answer says so.
func TestAnOrderInDoubtIsEndedByAPerson(t *testing.T) {
	p := startDoubtful(t, time.Millisecond)
	for _, c := range []struct {
		variant, word, outcome, note string
		verdict                      string // of the audit afterwards, "" where no row is left
	}{
		{"sent", "commit", "committed", "both or nothing, late", "delivered"},
		{"sent", "rollback", "rolled_back", "a phantom", "phantom"},
		{"unsent", "commit", "committed", "lost to everybody", "pending"}, // and lost when the bus had time enough
		{"unsent", "rollback", "rolled_back", "nothing happened", ""},
	} {
		t.Run(c.variant+"/"+c.word, func(t *testing.T) {
			id := p.doubt(c.variant)
			listed := p.want(p.get("/admin/prepared"), 200)
			if rows := listed.value("prepared").([]any); len(rows) != 1 || rows[0].(map[string]any)["event_id"] != id ||
				rows[0].(map[string]any)["in_doubt"] != true || !strings.Contains(string(listed.body), id+"/"+c.word) {
				t.Errorf("%s", listed.body)
			}
			path := "/admin/prepared/" + id + "/" + c.word + "?chapter=9"
			notes := make(chan string, 4)
			statuses := p.parallel(4, func() answer {
				a := p.post(path, "")
				if a.status == 200 {
					notes <- a.text("outcome") + ": " + a.text("note")
				}
				return a
			})
			if statuses[200] != 1 || statuses[200]+statuses[http.StatusConflict]+statuses[http.StatusNotFound] != 4 {
				t.Fatalf("four persons at once: %v, want one 200", statuses)
			}
			if note := <-notes; !strings.HasPrefix(note, c.outcome) || !strings.Contains(note, c.note) {
				t.Errorf("%s", note)
			}
			after := p.get("/audit/event/" + id + "?chapter=9")
			if c.verdict == "" {
				p.wantProblem(after, http.StatusNotFound, "event_unknown")
				p.wantProblem(p.post(path, ""), http.StatusNotFound, "event_unknown")
				return
			}
			if after.text("verdict."+c.verdict) != "1" || after.value("in_doubt") != nil {
				t.Errorf("%s", after.body)
			}
			p.wantProblem(p.post(path, ""), http.StatusConflict, "not_in_doubt")
		})
	}
	// One more, for what its answer says, by the name that PostgreSQL knows.
	id := p.doubt("sent")
	done := p.want(p.post("/admin/prepared/ch09."+id+"/rollback", ""), 200)
	if done.text("outcome") != "rolled_back" || done.value("handled") != true || !strings.Contains(done.text("note"), "phantom") || done.text("gid") != "ch09."+id {
		t.Errorf("%s", done.body)
	}
}

func TestALivingCoordinatorIsNotOvertaken(t *testing.T) {
	p := startDoubtful(t, time.Hour)
	id := uuid.NewString()
	p.wantProblem(p.post("/chapters/9/orders?variant=unsent&user_id=u1&items=A&event_id="+id, ""), http.StatusServiceUnavailable, "in_doubt")
	if rows := p.get("/admin/prepared?chapter=9").value("prepared").([]any); len(rows) != 1 || rows[0].(map[string]any)["in_doubt"] != false {
		t.Errorf("%v", rows)
	}
	if text := string(p.get("/admin/prepared.txt").body); !strings.Contains(text, "under way, in doubt after 1h0m0s") {
		t.Errorf("%s", text)
	}
	a := p.wantProblem(p.post("/admin/prepared/"+id+"/commit", ""), http.StatusConflict, "not_in_doubt")
	if a.header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
	trail := p.get("/audit/event/" + id + "?chapter=9")
	if trail.value("valid") != "unknown" || trail.text("in_doubt.gid") != "ch09."+id {
		t.Errorf("%s", trail.body)
	}
}

func TestPreparedRefusals(t *testing.T) {
	p := startDoubtful(t, time.Millisecond)
	if text := string(p.get("/admin/prepared.txt").body); !strings.Contains(text, "nothing is prepared in chapter 9") {
		t.Errorf("%s", text)
	}
	p.wantProblem(p.get("/admin/prepared?chapter=3"), http.StatusUnprocessableEntity, "no_prepared")
	p.wantProblem(p.post("/admin/prepared/x/commit?chapter=3", ""), http.StatusUnprocessableEntity, "no_prepared")
	for _, unknown := range []string{"x", uuid.NewString(), "ch09." + uuid.NewString(), "it's"} {
		p.wantProblem(p.post("/admin/prepared/"+unknown+"/commit", ""), http.StatusNotFound, "event_unknown")
	}
	p.wantProblem(p.post("/admin/prepared/x/commit", "", "Sec-Fetch-Site", "cross-site"), http.StatusForbidden, "cross_site")
	p.wantProblem(p.post("/admin/prepared/x/commit?force=1", ""), http.StatusUnprocessableEntity, "invalid_input")
	for variant, code := range map[string]string{"locked": "row_locked", "full": "too_many_prepared"} {
		a := p.wantProblem(p.post("/chapters/9/orders?user_id=u1&items=A&variant="+variant, ""), http.StatusServiceUnavailable, code)
		if !strings.Contains(a.text("fix"), "/admin/prepared") || a.header.Get("Retry-After") == "" {
			t.Errorf("%s", a.body)
		}
	}
	a := p.wantProblem(p.post("/chapters/9/orders?user_id=u1&items=A&variant=named", ""), http.StatusConflict, "name_in_use")
	if !strings.Contains(a.text("fix"), "a new event_id") {
		t.Errorf("%s", a.body)
	}
	a = p.wantProblem(p.post("/chapters/9/orders?user_id=u1&items=A&variant=logged", ""), http.StatusServiceUnavailable, "in_doubt")
	if !strings.Contains(a.text("detail"), "finished without you") {
		t.Errorf("where somebody recovers: %s", a.body)
	}
}
