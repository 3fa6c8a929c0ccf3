package twophase

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"outboxplayground/core/bus"
	"outboxplayground/core/pg"
	"outboxplayground/core/prepared"
	"outboxplayground/core/shop"
)

// countOrder counts the order at its customer, and so locks the customer's row until
// the transaction ends. Behind a transaction in doubt that is never, so nobody waits
// longer than the two seconds that the function in FROM sets for this transaction.
const countOrder = `
INSERT INTO customers (user_id, orders)
SELECT $1, 1 FROM set_config('lock_timeout', '2s', true)
ON CONFLICT (user_id) DO UPDATE SET orders = customers.orders + 1`

// phaseOne is a DB whose transactions end in PREPARE TRANSACTION instead of COMMIT.
type phaseOne struct {
	db   shop.DB
	name string
}

// Begin begins a transaction that will be prepared.
func (p phaseOne) Begin(ctx context.Context) (pgx.Tx, error) {
	tx, err := p.db.Begin(ctx)
	if err != nil {
		return nil, err
	}
	return phaseOneTx{tx, p}, nil
}

type phaseOneTx struct {
	pgx.Tx
	of phaseOne
}

// Commit is the first phase. Afterwards the transaction belongs to no session: the
// Rollback only gives the connection back, and PostgreSQL warns that there was
// nothing to roll back.
func (t phaseOneTx) Commit(ctx context.Context) error {
	tag, err := t.Exec(ctx, `PREPARE TRANSACTION `+prepared.Quote(t.of.name))
	_ = t.Rollback(ctx)
	switch {
	case err == nil && tag.String() == "PREPARE TRANSACTION":
		return nil
	case err == nil: // what had failed before is rolled back, and that is no error
		return pgx.ErrTxCommitRollback
	case answered(err):
		return err
	}
	// The answer was lost. What is prepared can be rolled back, for nothing was sent;
	// what is not there yet might still be prepared, after we have asked.
	return refuse(ctx, t.of.db, t.of.name, err)
}

// answered tells PostgreSQL's own no from silence, and from its words to somebody
// whom it lets in no more: those are no answer to what was said.
func answered(err error) bool {
	var said *pgconn.PgError
	return errors.As(err, &said) && !pg.Unavailable(err)
}

func commit(ctx context.Context, db shop.DB, name string) error {
	return insist(ctx, func(ctx context.Context) error {
		return prepared.Commit(ctx, db, name)
	})
}

// refuse rolls back what certainly was not sent, and returns why it was not.
func refuse(ctx context.Context, db shop.DB, name string, why error) error {
	err := insist(ctx, func(ctx context.Context) error {
		return prepared.Rollback(ctx, db, name)
	})
	if err != nil {
		return fmt.Errorf("%w: %w", err, why)
	}
	return why
}

// inDoubt leaves the transaction to a person.
func inDoubt(why error) error { return fmt.Errorf("%w: %w", prepared.ErrInDoubt, why) }

// Of the second phase.
const (
	insistLimit = 3 * time.Second
	insistPause = 100 * time.Millisecond
)

// insist says the second word, on any connection, until it is certain that it was
// heard: a name is ended once, so one that is gone after a word whose answer was lost
// was ended by that word. It does not stop with the request.
func insist(ctx context.Context, say func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), insistLimit)
	defer cancel()
	for heard := false; ; {
		err := say(ctx)
		if err == nil || heard && errors.Is(err, prepared.ErrUnknown) {
			return nil
		}
		if errors.Is(err, prepared.ErrUnknown) || answered(err) {
			return inDoubt(err)
		}
		heard = heard || !unsaid(err)
		if !bus.Pause(ctx, insistPause) {
			return inDoubt(err)
		}
	}
}

// unsaid: the word did not get through, or somebody else was about to say one.
func unsaid(err error) bool {
	var connect *pgconn.ConnectError
	return errors.As(err, &connect) || errors.Is(err, prepared.ErrBusy)
}
