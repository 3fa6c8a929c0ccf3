package cdc

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/jackc/pgx/v5"
)

// refusal is an event that is given up until a person acts.
type refusal struct {
	*item
	why error
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
			headers, err := headersOf(r.msg.Headers)
			if err != nil {
				return err
			}
			if _, err := tx.Exec(ctx, parkEvent, r.msg.ID, w.lane.Bus, r.msg.Topic, r.msg.Key, headers,
				string(r.msg.Payload), r.tries+1, legible(r.why)); err != nil {
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

func headersOf(h map[string]string) (*string, error) {
	if len(h) == 0 {
		return nil, nil
	}
	raw, err := json.Marshal(h)
	text := string(raw)
	return &text, err
}

// legible makes an error fit for a TEXT column, which takes neither NUL nor broken
// UTF-8, and short enough to read in a list.
func legible(err error) string {
	text := strings.ToValidUTF8(strings.ReplaceAll(err.Error(), "\x00", ""), "?")
	if runes := []rune(text); len(runes) > 500 {
		text = string(runes[:500])
	}
	return text
}
