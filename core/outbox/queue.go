package outbox

import (
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"outboxplayground/core/bus"
)

// Queue is how rows are taken from the table and what became of them is written
// down. Implementations keep nothing in memory and are safe for concurrent use.
type Queue interface {
	// Claim returns at most w.Limit rows that are due, in the order of id, within
	// the caller's transaction, which is READ COMMITTED.
	Claim(ctx context.Context, tx pgx.Tx, w Want) ([]Entry, error)
	// Settle writes down what became of the rows of one claim, one statement for
	// each fate, or marks the rows of several claims, all of which was sent. Rows that are no longer the caller's stay as they are and are
	// counted as conflicts. Settling twice is harmless.
	Settle(ctx context.Context, db DB, s Settlement) (conflicts int, err error)
	// Release gives the rows of one claim back, none of which was published. They are
	// as if they had never been claimed.
	Release(ctx context.Context, db DB, rows []Entry) error
}

// Want says which rows a claim is after.
type Want struct {
	Bus    string
	Limit  int
	After  int64   // only rows with a higher id
	Except []int64 // not these: the caller has them in hand
}

// Entry is a claimed row.
type Entry struct {
	ID       int64
	Attempts int
	Message  bus.Message
	Token    int64 // of the claim; 0 where there is no lease
}

// Settlement is what became of the rows of one claim, or of several where that is
// plain: all was sent.
type Settlement struct {
	Partial  bool // some rows of the claim are left out and stay in hand
	Sent     []Entry
	Deferred []Mark // last_error is noted, and a delay; no attempt is spent
	Retried  []Mark
	Parked   []Mark
}

// plain: all rows of the claims were sent.
func (s Settlement) plain() bool { return s.rows() == len(s.Sent) && !s.Partial }

// token is that of the claim, where it is one and has rows.
func (s Settlement) token() int64 {
	if len(s.Sent) > 0 {
		return s.Sent[0].Token
	}
	return slices.Concat(s.Deferred, s.Retried, s.Parked)[0].Token
}

func (s Settlement) rows() int { return len(s.Sent) + len(s.Deferred) + len(s.Retried) + len(s.Parked) }

// Mark is a row whose publish failed.
type Mark struct {
	Entry
	Error string        // legible, see TEXT
	Delay time.Duration // until the row is due again
}

// statements are the SQL of the fates. $1 holds the ids; all but sent have attempts,
// errors and delays in seconds as $2 to $4. The rows are found by their ids: "status
// = 'pending'" would let the planner read the whole partial index and pick the ids out of
// it, because it believes that next to nothing is pending. Hence the || ”, which hides
// from it that the index fits.
type statements struct{ sent, deferred, retried, parked string }

// settle carries a settlement out: alone where there is one fate, which is the
// usual case, else in one transaction.
func (q statements) settle(ctx context.Context, db DB, s Settlement) (conflicts int, err error) {
	todo := q.todo(s)
	if len(todo) == 1 {
		return todo[0].do(ctx, db)
	}
	err = pgx.BeginFunc(ctx, db, func(tx pgx.Tx) (err error) {
		conflicts, err = q.all(ctx, tx, s)
		return err
	})
	return conflicts, err
}

// all carries a settlement out within a transaction.
func (q statements) all(ctx context.Context, tx pgx.Tx, s Settlement) (conflicts int, err error) {
	for _, t := range q.todo(s) {
		n, err := t.do(ctx, tx)
		if err != nil {
			return 0, err
		}
		conflicts += n
	}
	return conflicts, nil
}

// execer is a DB or a transaction.
type execer interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
}

// task is one statement and the number of rows it should find.
type task struct {
	sql  string
	args []any
	rows int
}

func (t task) do(ctx context.Context, db execer) (missed int, err error) {
	tag, err := db.Exec(ctx, t.sql, t.args...)
	return t.rows - int(tag.RowsAffected()), err
}

func (q statements) todo(s Settlement) (todo []task) {
	if len(s.Sent) > 0 {
		todo = append(todo, task{q.sent, []any{ids(s.Sent)}, len(s.Sent)})
	}
	for _, f := range []struct {
		sql   string
		marks []Mark
	}{{q.deferred, s.Deferred}, {q.retried, s.Retried}, {q.parked, s.Parked}} {
		if len(f.marks) > 0 {
			todo = append(todo, mark(f.sql, f.marks))
		}
	}
	return todo
}

func mark(sql string, marks []Mark) task {
	n := len(marks)
	id, attempts := make([]int64, n), make([]int32, n)
	text, delay := make([]string, n), make([]float64, n)
	for i, m := range marks {
		id[i], attempts[i], text[i], delay[i] = m.ID, int32(m.Attempts), m.Error, m.Delay.Seconds()
	}
	return task{sql, []any{id, attempts, text, delay}, n}
}

func tokens(rows []Entry) []int64 {
	list := make([]int64, len(rows))
	for i, r := range rows {
		list[i] = r.Token
	}
	return list
}

func ids(rows []Entry) []int64 {
	list := make([]int64, len(rows))
	for i, r := range rows {
		list[i] = r.ID
	}
	return list
}
