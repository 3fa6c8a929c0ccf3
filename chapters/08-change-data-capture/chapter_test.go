package capture

import (
	"context"
	"errors"
	"log/slog"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"outboxplayground/core/bus"
	"outboxplayground/core/checkpoint"
	"outboxplayground/core/lab"
	"outboxplayground/core/outbox"
	"outboxplayground/core/pg"
	"outboxplayground/core/pg/pgtest"
	"outboxplayground/core/shop/shoptest"
	"outboxplayground/infra/servers/servertest"
)

var errBusiness = errors.New("simulated business failure")

const patience = 30 * time.Second

// rig is what the lab would hand to the chapter, in a schema whose slot goes with it.
func rig(t *testing.T, b bus.Bus) lab.Deps {
	t.Helper()
	pool, schema := pgtest.Schema(t, 8)
	cfg, err := pg.ConnConfig(servertest.URL(t, "postgres"), schema, pg.Options{})
	if err != nil {
		t.Fatal(err)
	}
	d := lab.Deps{DB: pool, Bus: b, BusName: "redis", Schema: schema,
		ConnConfig: cfg.Copy, Gate: pg.Gate(schema), Log: slog.New(slog.DiscardHandler)}
	t.Cleanup(func() {
		dropped(t, d)
		if _, err := pool.Exec(context.Background(),
			`DROP PUBLICATION `+schema+`_redis`); err != nil {
			t.Error(err)
		}
	})
	prepared(t, d)
	return d
}

// dropped drops the slot, as soon as the server has noticed that its reader is gone.
func dropped(t *testing.T, d lab.Deps) {
	t.Helper()
	const drop = `SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots
		WHERE starts_with(slot_name, $1)`
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	_, err := d.DB.Exec(ctx, drop, d.Schema)
	for ; err != nil && ctx.Err() == nil; _, err = d.DB.Exec(ctx, drop, d.Schema) {
		time.Sleep(5 * time.Millisecond)
	}
	if err != nil {
		t.Error(err)
	}
}

// prepared prepares a lane. A new slot waits for the open transactions of other tests.
func prepared(t *testing.T, d lab.Deps) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := prepare(ctx, d); err != nil {
		t.Fatal(err)
	}
}

// relayed runs the chapter's relay until the bus has n messages.
func relayed(t *testing.T, d lab.Deps, n int) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), patience)
	defer stop()
	var running sync.WaitGroup
	running.Go(func() {
		if err := relay(d).Run(ctx); err != nil {
			t.Error(err)
		}
	})
	for len(d.Bus.(*shoptest.Bus).Accepted()) < n && ctx.Err() == nil {
		time.Sleep(5 * time.Millisecond)
	}
	stop()
	running.Wait()
}

// An order that fails leaves no row and no message, with a table and without; one that
// commits leaves an event, in one place or the other.
func TestPlaceOrderKeepsBothOrNeither(t *testing.T) {
	for _, v := range Chapter().Variants {
		t.Run(v.Name, func(t *testing.T) {
			b := &shoptest.Bus{}
			d := rig(t, b)
			refused, kept := shoptest.Order("redis"), shoptest.Order("redis")
			d.Steps = checkpoint.Fail(checkpoint.BeforeCommit, refused.EventID,
				errBusiness)
			err := v.Producer(d).PlaceOrder(t.Context(), refused)
			if !errors.Is(err, errBusiness) {
				t.Errorf("PlaceOrder answered %v, want the business failure", err)
			}
			if err := v.Producer(d).PlaceOrder(t.Context(), kept); err != nil {
				t.Fatal(err)
			}
			d.Steps = nil
			relayed(t, d, 1)
			if got := b.Accepted(); len(got) != 1 || got[0].ID != kept.EventID ||
				got[0].Key != "u1" || got[0].Topic != Topic {
				t.Errorf("the bus has %+v, want the event of the order that was kept",
					got)
			}
			rows := 1
			if v.Name == "table-less" {
				rows = 0
			}
			tx, err := d.DB.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer tx.Rollback(t.Context())
			var orders, events int
			err = tx.QueryRow(t.Context(), `SELECT (SELECT count(*) FROM orders),
				(SELECT count(*) FROM outbox)`).Scan(&orders, &events)
			if err != nil || orders != 1 || events != rows {
				t.Errorf("%d orders, %d rows, %v; want 1 and %d",
					orders, events, err, rows)
			}
		})
	}
}

var remedy = regexp.MustCompile("(?s)UPDATE outbox o SET status = 'failed'.*?;")

// What the text tells a person to do about a dropped slot brings the lost event back,
// and only that one.
func TestWhatADroppedSlotLostIsGivenBack(t *testing.T) {
	b := &shoptest.Bus{}
	d := rig(t, b)
	place := func() string {
		t.Helper()
		o := shoptest.Order("redis")
		if err := (&Outbox{DB: d.DB}).PlaceOrder(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		return o.EventID
	}
	exec := func(sql string, args ...any) {
		t.Helper()
		if _, err := d.DB.Exec(t.Context(), sql, args...); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	handled := place()
	relayed(t, d, 1)
	exec(`INSERT INTO processed (event_id, consumer, bus)
		VALUES ($1, 'mailer', 'redis')`, handled)
	dropped(t, d)
	lost := place()
	prepared(t, d)
	after := place()
	text, err := files.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	exec(strings.Replace(remedy.FindString(string(text)), "'nats'", "'redis'", 1))
	if n, err := outbox.RetryAll(t.Context(), d.DB, outbox.Filter{Bus: "redis"},
		"anna"); err != nil || n != 1 {
		t.Errorf("%d rows were given back, %v, want the one that was lost", n, err)
	}
	relayed(t, d, 3)
	if got := b.Accepted(); len(got) != 3 || got[1].ID != after || got[2].ID != lost {
		t.Errorf("the bus has %+v, want %s, %s and %s", got, handled, after, lost)
	}
}

// A role that may not replicate turns the chapter off, in the lab's own word.
func TestTheChapterCanBeOff(t *testing.T) {
	pool, schema := pgtest.Schema(t, 8)
	role := schema + "_plain"
	if _, err := pool.Exec(t.Context(),
		`CREATE ROLE `+role+` LOGIN PASSWORD 'x'`); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = pool.Exec(context.Background(), `DROP ROLE `+role) })
	u, err := url.Parse(servertest.URL(t, "postgres"))
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword(role, "x")
	cfg, err := pg.ConnConfig(u.String(), schema, pg.Options{})
	if err != nil {
		t.Fatal(err)
	}
	err = prepare(t.Context(), lab.Deps{DB: pool, BusName: "redis", Schema: schema,
		ConnConfig: cfg.Copy})
	if !errors.Is(err, lab.ErrChapterOff) ||
		!strings.Contains(err.Error(), "REPLICATION") {
		t.Errorf("prepare: %v, want ErrChapterOff with the fix", err)
	}
}
