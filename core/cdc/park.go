package cdc

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// refusal is an event that is given up until a person acts.
type refusal struct {
	*item
	why      error
	attempts int // publishes that failed since it came
}

// The one thing that the relay writes. An event that has no row, because its producer
// wrote a message into the log, gets one now: there it waits for a person.
const parkEvent = `
INSERT INTO outbox (event_id, bus, topic, key, headers, payload, status, attempts, last_error)
VALUES ($1, $2, $3, $4, $5, $6, 'failed', $7, $8)
ON CONFLICT (event_id) DO UPDATE
SET status = 'failed', attempts = outbox.attempts + excluded.attempts, last_error = excluded.last_error`

// park writes refused events down; only then is the lane done with them.
func (w *work) park(ctx context.Context, refused []refusal) error {
	if len(refused) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), statement)
	defer cancel()
	err := pgx.BeginFunc(ctx, w.db, func(tx pgx.Tx) error {
		for _, r := range refused {
			if err := w.parkOne(ctx, tx, r); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, r := range refused {
		r.done = true
	}
	return nil
}

// parkOne writes an event down as it is or, where its content fits no row (a message in
// the log is checked by nobody), as text. A lane must not stand still for that.
func (w *work) parkOne(ctx context.Context, tx pgx.Tx, r refusal) error {
	headers, err := headersOf(r.msg.Headers)
	if err != nil {
		return err
	}
	m := r.msg
	err = pgx.BeginFunc(ctx, tx, func(inner pgx.Tx) error { // a savepoint
		_, err := inner.Exec(ctx, parkEvent, m.ID, w.lane.Bus, m.Topic, m.Key, headers,
			string(m.Payload), r.attempts, short(r.why.Error()))
		return err
	})
	if !unfit(err) {
		return err
	}
	raw, err := json.Marshal(m) // the form of a message: nothing of it is left out
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, parkEvent, m.ID, w.lane.Bus, legible(m.Topic), legible(m.Key), nil,
		string(wrapped(raw)), r.attempts, short(r.why.Error()))
	return err
}

// unfit recognises what the server says of content: a data exception, or a failed CHECK.
func unfit(err error) bool {
	var said *pgconn.PgError
	return errors.As(err, &said) && (strings.HasPrefix(said.Code, "22") || said.Code == "23514")
}

// wrapped makes a JSON object of anything, since a payload has to be one.
func wrapped(raw []byte) []byte {
	object, _ := json.Marshal(map[string]string{"unreadable": legible(string(raw))}) // strings never fail
	return object
}

func headersOf(h map[string]string) (*string, error) {
	if len(h) == 0 {
		return nil, nil
	}
	raw, err := json.Marshal(h)
	text := string(raw)
	return &text, err
}

// legible makes a text fit for a TEXT column, which takes neither NUL nor broken UTF-8:
// such a text is quoted as in Go, so that nothing of it is lost.
func legible(text string) string {
	if utf8.ValidString(text) && !strings.Contains(text, "\x00") {
		return text
	}
	return strconv.Quote(text)
}

// short makes a reason short enough to read in a list.
func short(text string) string {
	text = legible(text)
	if runes := []rune(text); len(runes) > 500 {
		text = string(runes[:500])
	}
	return text
}
