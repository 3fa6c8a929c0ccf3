package outbox_test

import (
	"context"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"outboxplayground/core/outbox"
	"outboxplayground/core/pg/pgtest"
	"outboxplayground/core/shop/shoptest"
)

// settings are those of a transaction that decide what it sees and what it waits for.
const settings = `SELECT current_setting('transaction_isolation') || ', ' || current_setting('synchronous_commit')`

// A claim waits for no disk: losing one means a repeat. The mark does wait, because
// losing that would mean repeats without end. And the database's default isolation is
// nobody's business.
func TestOnlyTheMarkWaitsForTheDisk(t *testing.T) {
	for name, queue := range map[string]outbox.Queue{"plain": outbox.Plain{}, "leased": outbox.Leased{}} {
		t.Run(name, func(t *testing.T) {
			pool, _ := pgtest.Schema(t, 5)
			var claiming []string
			look := func(ctx context.Context, tx pgx.Tx) (bool, error) {
				claiming = append(claiming, said(t, tx))
				return true, nil
			}
			strict := strictPool(t, pool)
			marks := &spy{Queue: queue, t: t}
			write(t, pool, "nats", 3)
			r := relay(t, strict, &shoptest.Bus{}, outbox.Config{Queue: marks, Gate: look})
			step(t, r)
			if want := []string{"read committed, off"}; !slices.Equal(claiming, want) {
				t.Errorf("claims: %q, want %q", claiming, want)
			}
			if want := []string{"serializable, on"}; !slices.Equal(marks.saw, want) {
				t.Errorf("marks: %q, want %q", marks.saw, want)
			}
			if n := pgtest.Count(t, pool, `SELECT count(*) FROM outbox WHERE status = 'sent'`); n != 3 {
				t.Errorf("%d sent, want 3", n)
			}
		})
	}
}

// strictPool makes every transaction serializable that does not ask for something else.
func strictPool(t *testing.T, like *pgxpool.Pool) *pgxpool.Pool {
	t.Helper()
	cfg := like.Config().Copy()
	cfg.ConnConfig.RuntimeParams["default_transaction_isolation"] = "serializable"
	p, err := pgxpool.NewWithConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

// spy is a queue that notes the settings of the session that settles.
type spy struct {
	outbox.Queue
	t   *testing.T
	saw []string
}

func (s *spy) Settle(ctx context.Context, db outbox.DB, m outbox.Settlement) (conflicts int, err error) {
	err = pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
		s.saw = append(s.saw, said(s.t, tx))
		conflicts, err = s.Queue.Settle(ctx, tx, m)
		return err
	})
	return conflicts, err
}

func said(t *testing.T, tx pgx.Tx) (settled string) {
	t.Helper()
	if err := tx.QueryRow(t.Context(), settings).Scan(&settled); err != nil {
		t.Fatal(err)
	}
	return settled
}
