package main

import (
	"context"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// SIGKILL of a run whose relay reads the log: slot and publication outlive it, and the
// slot keeps the server's log. While the run lives, no sweep touches them.
func TestAKilledRunLeavesNoSlot(t *testing.T) {
	b := newBench(t, "nats")
	p := startCommand(t, b.env(), "run", "8", "--bus", "nats", "--orders", "2000")
	eventually(t, time.Minute, "a reader on its slot", func() bool {
		return b.count(t, `SELECT count(*) FROM pg_replication_slots WHERE active AND database = current_database()`) == 1
	})
	if err := b.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := b.count(t, globals); n != 2 {
		t.Errorf("%d of slot and publication are there after a sweep beside a living run", n)
	}
	kill(t, p)
	if n := b.count(t, globals); n != 2 {
		t.Errorf("%d of slot and publication are left to sweep: this test proves nothing", n)
	}
	eventually(t, 20*time.Second, "the sweep", func() bool { // the database notices the death a moment later
		if err := b.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		return len(b.schemas(t)) == 0
	})
	b.nothingLeft(t)
}

// ownerWithoutReplication makes a role that may do everything in the bench's database
// and not replicate, and returns the URL with it.
func (b *bench) ownerWithoutReplication(t *testing.T) string {
	t.Helper()
	role := "test_" + strings.ReplaceAll(uuid.NewString(), "-", "")[:16]
	u, err := url.Parse(b.DatabaseURL)
	if err != nil {
		t.Fatal(err)
	}
	database := pgx.Identifier{strings.TrimPrefix(u.Path, "/")}.Sanitize()
	owner := u.User.Username()
	for _, sql := range []string{
		`CREATE ROLE ` + role + ` LOGIN PASSWORD 'x'`, `ALTER DATABASE ` + database + ` OWNER TO ` + role,
		`ALTER SCHEMA playground OWNER TO ` + role,
		`GRANT ALL ON ALL TABLES IN SCHEMA playground TO ` + role, `GRANT ALL ON ALL SEQUENCES IN SCHEMA playground TO ` + role,
	} {
		if _, err := b.pool.Exec(t.Context(), sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	t.Cleanup(func() {
		for _, sql := range []string{
			`ALTER DATABASE ` + database + ` OWNER TO ` + owner, `DROP OWNED BY ` + role + ` CASCADE`, `DROP ROLE ` + role,
		} {
			if _, err := b.pool.Exec(context.Background(), sql); err != nil {
				t.Errorf("%s: %v", sql, err)
			}
		}
	})
	u.User = url.UserPassword(role, "x")
	return u.String()
}

// A Postgres that lets nobody read its log: the chapter is off, everywhere and with the
// way to turn it on, and everything else works.
func TestAChapterThatIsOff(t *testing.T) {
	t.Parallel()
	b := newBench(t, "nats")
	env := map[string]string{"DATABASE_URL": b.ownerWithoutReplication(t), "NATS_URL": b.env()["NATS_URL"]}
	b.DatabaseURL = env["DATABASE_URL"]
	_, stderr, code := b.command(t, "run", "8", "--bus", "nats")
	if code != exitCouldNotRun || !strings.Contains(stderr, "this chapter is off") || !strings.Contains(stderr, " REPLICATION") {
		t.Errorf("run 8: exit code %d\n%s", code, stderr)
	}
	p := startServe(t, b.env())
	p.waitReady("nats")
	_, answer := p.call("GET", "/chapters", "")
	chapters, _ := answer["chapters"].([]any)
	off := slices.IndexFunc(chapters, func(c any) bool { return c.(map[string]any)["off"] != "" })
	if off < 0 || chapters[off].(map[string]any)["number"] != 8.0 {
		t.Errorf("/chapters: %v", chapters)
	}
	for path, body := range map[string]string{
		"/chapters/8/orders?bus=nats": `{"user_id":"u1","items":["A"]}`, "/runs": `{"chapter":8,"bus":"nats"}`,
	} {
		status, problem := p.call("POST", path, body)
		if detail, _ := problem["detail"].(string); status != 503 || problem["code"] != "chapter_off" || !strings.Contains(detail, "ALTER ROLE") {
			t.Errorf("POST %s: %d %v", path, status, problem)
		}
	}
	p.delivered(p.order("?bus=inmemory&chapter=3"))
	p.stop()
}
