package audit

import (
	"context"
	"fmt"
	"time"
)

// witness is what was asked outside the tables, between the two readings.
type witness struct {
	asked      bool
	backlog    int64
	backlogErr error
	at         time.Time // when the question about transactions was put
	open       int64     // transactions that could still write the order
	over       bool      // the lab knows that nothing can come any more
	log        logWitness
}

// Who could still insert the order? The message left before the listener handled
// it, hence from a transaction that began before that. Either it is still open (our
// own connection is not it), or it is prepared and waits for its second phase: then
// it has written already, so it holds a lock on orders, and no process (pid) does.
// Postgres hides the transactions of other users from an unprivileged one: the
// producer has to connect as the user that audits, as it does here.
const openWriters = `
SELECT statement_timestamp(),
  (SELECT count(*) FROM pg_stat_activity
   WHERE datname = current_database() AND pid <> pg_backend_pid()
     AND backend_type = 'client backend' AND xact_start <= $1)
  + (SELECT count(*) FROM pg_locks
     WHERE pid IS NULL AND relation = 'orders'::regclass AND mode = 'RowExclusiveLock'
       AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))`

// writers counts the transactions that may still write the order of an event which
// was first handled at the given time. It must not run inside the snapshot of the
// reading: that would date from before the answer.
func (s Source) writers(ctx context.Context, handled time.Time) (witness, error) {
	w := witness{asked: true}
	if err := s.DB.QueryRow(ctx, openWriters, handled).Scan(&w.at, &w.open); err != nil {
		return witness{}, fmt.Errorf("audit: open transactions: %w", err)
	}
	return w, nil
}
