package lab

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"outboxplayground/core/pg"
	"outboxplayground/core/pg/pgtest"
	"outboxplayground/infra/servers/servertest"
)

// leftovers is what a schema's name is found in, outside it and itself.
const leftovers = `
SELECT 'slot ' || slot_name FROM pg_replication_slots WHERE starts_with(slot_name, $1)
UNION ALL SELECT 'publication ' || pubname FROM pg_publication WHERE starts_with(pubname, $1)
UNION ALL SELECT 'prepared ' || gid FROM pg_prepared_xacts WHERE starts_with(gid, $1)
UNION ALL SELECT 'schema ' || nspname FROM pg_namespace WHERE nspname = $1
ORDER BY 1`

// busyOnce is a double: the first slot to be dropped still has its reader.
type busyOnce struct {
	session
	asked bool
}

func (b *busyOnce) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	if sql == dropSlot && !b.asked {
		b.asked = true
		return pgconn.CommandTag{}, &pgconn.PgError{Code: objectInUse}
	}
	return b.session.Exec(ctx, sql, args...)
}

// A run whose process was killed leaves a reader behind on its slot, and a prepared
// transaction that holds locks in the schema to be dropped.
func TestWhatIsGlobalGoesWithTheSchema(t *testing.T) {
	ctx := t.Context()
	url, schema := pgtest.Database(t), "run_ab12"
	if err := pg.MigrateChapter(ctx, url, schema, 3); err != nil {
		t.Fatal(err)
	}
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	table := pgx.Identifier{schema, "orders"}.Sanitize()
	for _, sql := range []string{
		`SELECT pg_create_logical_replication_slot('` + schema + `_nats', 'pgoutput')`,
		`CREATE PUBLICATION ` + schema + `_nats FOR TABLE ` + table,
		`BEGIN`, `LOCK TABLE ` + table, `PREPARE TRANSACTION '` + schema + `.it''s one'`,
	} {
		if _, err := conn.Exec(ctx, sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	readSlot(t, url, schema+"_nats", schema+"_nats")
	if found := list(t, conn, schema); len(found) != 4 {
		t.Fatalf("before: %v, want all four", found)
	}
	if err := dropAll(ctx, conn, "run_ab1"); err != nil { // its name begins the same
		t.Fatal(err)
	}
	if found := list(t, conn, schema); len(found) != 4 {
		t.Errorf("a neighbour's clean-up left %v, want all four", found)
	}
	if err := dropAll(ctx, &busyOnce{session: conn}, schema); err != nil {
		t.Fatal(err)
	}
	if found := list(t, conn, schema); len(found) != 0 {
		t.Errorf("left over: %v", found)
	}
}

func list(t *testing.T, conn *pgx.Conn, schema string) []string {
	t.Helper()
	rows, err := conn.Query(t.Context(), leftovers, schema)
	if err != nil {
		t.Fatal(err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// readSlot starts to read from a slot and never stops by itself.
func readSlot(t *testing.T, url, slot, publication string) {
	t.Helper()
	cfg, err := pg.ConnConfig(url, "public", pg.Options{})
	if err != nil {
		t.Fatal(err)
	}
	cfg.RuntimeParams["replication"] = "database"
	conn, err := pgx.ConnectConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	start := `START_REPLICATION SLOT ` + slot + ` LOGICAL 0/0 (proto_version '1', publication_names '` + publication + `')`
	conn.PgConn().Frontend().SendQuery(&pgproto3.Query{String: start})
	if err := conn.PgConn().Frontend().Flush(); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.PgConn().ReceiveMessage(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// One thing that cannot be removed keeps nothing else.
func TestEachIsRemovedOnItsOwn(t *testing.T) {
	conn, err := pgx.Connect(t.Context(), servertest.URL(t, "postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(t.Context()))
	const three = `SELECT $1 || n FROM generate_series(1, 3) n`
	stuck, gone := errors.New("stuck"), []string{}
	err = dropEach(t.Context(), conn, three, "a", func(name string) error {
		if name == "a1" {
			return stuck
		}
		gone = append(gone, name)
		return nil
	})
	if !errors.Is(err, stuck) || !slices.Equal(gone, []string{"a2", "a3"}) {
		t.Errorf("removed %v, %v", gone, err)
	}
}
