package inbox

import (
	"context"
	"encoding/json"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"outboxplayground/core/bus"
)

// letter is what is known of a message beside itself when it is given up.
type letter struct {
	id       pgtype.UUID // not valid when the message has none
	reason   error
	attempts int
	began    time.Time // of the first attempt
}

// The longest texts that are kept. Payload and headers are kept as they are.
const (
	longestReason = 1000
	longestName   = 500
)

// The database's clock stamps the rows, also for the time of the first attempt.
const insertLetter = `
INSERT INTO dead_letters (event_id, message_id, consumer, bus, topic, key, payload, headers,
	reason, attempts, first_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, clock_timestamp() - $11::interval)`

// bury makes a message a dead letter, in one transaction with its row in processed: a
// message whose letter is written is never handled by a late delivery, and one whose
// letter is not written comes again. Where another consumer was faster its verdict
// stands, and this delivery is counted.
func (o *Once) bury(ctx context.Context, m bus.Message, l letter) error {
	headers, err := json.Marshal(m.Headers)
	if err != nil || m.Headers == nil {
		headers = []byte("{}") // a map of strings cannot fail
	}
	payload := m.Payload
	if payload == nil {
		payload = []byte{}
	}
	fresh := true
	err = o.briefly(ctx, func(ctx context.Context, tx pgx.Tx) (err error) {
		if l.id.Valid {
			fresh, err = o.record(ctx, tx, l.id)
		}
		if err != nil || !fresh {
			return err
		}
		// Headers as text: where pgx does not ask for the types of the parameters (a URL
		// with default_query_exec_mode=exec), bytes would go as a BYTEA.
		_, err = tx.Exec(ctx, insertLetter, l.id, legible(m.ID, longestName), o.Consumer, o.Bus,
			legible(m.Topic, longestName), legible(m.Key, longestName), payload, string(headers),
			legible(l.reason.Error(), longestReason), l.attempts, time.Since(l.began))
		return err
	})
	switch {
	case err != nil:
		bus.Pause(ctx, o.Config.withDefaults().MaxDelay)
	case fresh:
		o.log().WarnContext(ctx, "message given up", "event", m.ID, "attempts", l.attempts, "reason", l.reason)
	}
	return err
}
