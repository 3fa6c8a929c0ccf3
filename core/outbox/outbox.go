// Package outbox keeps events in the database, beside the change that caused
// them, until a broker has taken them.
//
// Write puts an event into the caller's transaction. A Relay, one for each bus,
// takes the rows from a Queue, publishes them and writes down what became of them.
// Failed, Retry and RetryAll are for the person who looks after the rows that were
// given up; ReadStats and Purge are for the one who looks after the table.
//
// Delivery is at least once: between a broker's acknowledgement and the mark in
// the table lies a gap that nobody can close, so consumers have to recognise
// repeats. No function here deletes or forgets a row that has not been sent.
//
// The package needs the tables of the migrations 00301, 00401 and (for Leased)
// 00502. Names are unqualified: they resolve by the connection's search_path.
package outbox

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"outboxplayground/core/bus"
)

// DB is what a relay needs of the database; *pgxpool.Pool has it. It is used from
// several goroutines at once, so a single connection will not do.
type DB interface {
	Begin(ctx context.Context) (pgx.Tx, error)
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
}

// A second row for one event breaks UNIQUE (event_id): a producer that tries twice
// still sends once. Status, attempts and next_attempt_at have their defaults:
// pending, none, at once.
const insertRow = `
INSERT INTO outbox (event_id, bus, topic, key, headers, payload)
VALUES ($1, $2, $3, $4, $5, $6)`

// Write adds the event to the caller's transaction: it will be sent if, and only
// if, that transaction commits. The parameter is a pgx.Tx so that a pool, with
// which this would be a dual write again, does not compile. The payload must be a
// JSON object. An error leaves the transaction aborted, as every SQL error does.
func Write(ctx context.Context, tx pgx.Tx, busName string, m bus.Message) error {
	headers, err := headersOf(m)
	if err != nil {
		return err
	}
	// As text and not as bytes: pgx's simple protocol would send bytes as a bytea.
	_, err = tx.Exec(ctx, insertRow, m.ID, busName, m.Topic, m.Key, headers, string(m.Payload))
	if err != nil {
		return fmt.Errorf("outbox: event %s: %w", m.ID, err)
	}
	return nil
}
