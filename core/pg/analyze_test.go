package pg

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"outboxplayground/infra/servers/servertest"
)

// A table that another process drops between the list and its turn is no error, and
// the tables behind it still get their statistics.
func TestATableThatGoesMeanwhileIsPassedOver(t *testing.T) {
	conn, err := pgx.Connect(t.Context(), servertest.URL(t, "postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	if _, err := conn.Exec(t.Context(), `CREATE TEMP TABLE here AS SELECT generate_series(1, 7)`); err != nil {
		t.Fatal(err)
	}
	if err := analyzeEach(t.Context(), conn, "pg_temp", []string{"gone", "here"}); err != nil {
		t.Fatal(err)
	}
	var rows float64
	const known = `SELECT reltuples FROM pg_class WHERE oid = 'pg_temp.here'::regclass`
	if err := conn.QueryRow(t.Context(), known).Scan(&rows); err != nil || rows != 7 {
		t.Errorf("the planner knows of %v rows (%v), want 7", rows, err)
	}
}
