package outbox

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

var errDeaf = errors.New("the LISTEN was accepted and what is notified does not arrive: " +
	"is there a pooler in between that hands out sessions by the transaction?")

// ear is one connection that listens.
type ear struct {
	*Waker
	conn *pgx.Conn
	own  string // a channel that only this ear knows, for its own calls
}

// session listens on one connection until that breaks or ctx ends. It tells whether
// it has heard anything at all.
func (w *Waker) session(ctx context.Context) (heard bool, err error) {
	defer w.first.Do(func() { close(w.tried) })
	e := ear{Waker: w, own: "waker." + rand.Text()}
	if err := e.open(ctx); err != nil {
		return false, err
	}
	defer e.close(ctx)
	w.first.Do(func() { close(w.tried) })
	if err := e.call(ctx); err != nil {
		return false, err
	}
	if err := e.sign(ctx); err != nil {
		return false, err
	}
	w.cfg.Log.InfoContext(ctx, "outbox: listening", "channel", w.cfg.Channel)
	w.turn(true)
	defer w.turn(false)
	return true, e.listen(ctx)
}

// open connects and listens.
func (e *ear) open(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, connectLimit)
	defer cancel()
	if e.conn, err = e.cfg.Connect(ctx); err != nil {
		return err
	}
	for _, channel := range []string{e.cfg.Channel, e.own} {
		if _, err := e.conn.Exec(ctx, "LISTEN "+pgx.Identifier{channel}.Sanitize()); err != nil {
			e.close(ctx)
			return err
		}
	}
	return nil
}

func (e *ear) close(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
	defer cancel()
	_ = e.conn.Close(ctx) // there is nothing on it to lose
}

// call notifies the ear's own channel the way the rows come, over the relays'
// database, and waits until it is heard. What else is heard meanwhile counts too.
func (e *ear) call(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, hearLimit)
	defer cancel()
	if _, err := e.cfg.DB.Exec(ctx, `SELECT pg_notify($1, '')`, e.own); err != nil {
		return fmt.Errorf("outbox: notify: %w", err)
	}
	for {
		n, err := e.conn.WaitForNotification(ctx)
		switch {
		case pgconn.Timeout(err):
			return errDeaf
		case err != nil:
			return err
		case n.Channel == e.own:
			return nil
		}
		e.wakeAll()
	}
}

// sign writes into pg_stat_activity that this session hears; see Listening. A
// parameter would need another statement than SET.
func (e *ear) sign(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, hearLimit)
	defer cancel()
	_, err := e.conn.Exec(ctx, `SELECT set_config('application_name', $1, false)`, signature(e.cfg.Channel)+e.cfg.Name)
	return err
}

// listen wakes the relays at every notification, until the connection breaks or
// has been silent for a while and does not hear a call either. A connection may be
// dead without an error: a lost network says nothing.
func (e *ear) listen(ctx context.Context) error {
	for {
		err := e.wait(ctx)
		if pgconn.Timeout(err) && ctx.Err() == nil {
			err = e.call(ctx)
		}
		if err != nil {
			return err
		}
	}
}

func (e *ear) wait(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, e.cfg.Check)
	defer cancel()
	n, err := e.conn.WaitForNotification(ctx)
	if err == nil && n.Channel == e.cfg.Channel {
		e.wakeAll()
	}
	return err
}

// signature is how the name of a session begins that hears a channel.
func signature(channel string) string { return "hears " + channel + " " }

const countEars = `
SELECT substr(application_name, length($1) + 1), count(*)
FROM pg_stat_activity WHERE starts_with(application_name, $1) AND datname = current_database()
GROUP BY 1`

// Listening counts, by their names, the wakers of a channel that hear, whichever
// process they are in. It believes the server's list of sessions: a session counts
// from its first own call that arrived until the server has seen it end.
func Listening(ctx context.Context, db Querier, channel string) (map[string]int, error) {
	rows, err := db.Query(ctx, countEars, signature(channel))
	if err != nil {
		return nil, fmt.Errorf("outbox: who listens: %w", err)
	}
	heard := map[string]int{}
	var name string
	var n int
	_, err = pgx.ForEachRow(rows, []any{&name, &n}, func() error {
		heard[name] = n
		return nil
	})
	return heard, err
}
