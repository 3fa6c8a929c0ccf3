// Package shop is the business: orders, the event that tells of an order, and
// the listener that sends the confirmation email. It is dull on purpose, so that
// what a chapter does differently is all there is to read.
package shop

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"outboxplayground/core/bus"
	"outboxplayground/core/pg"
)

// DB is what the shop and its chapters need of the database.
type DB = pg.DB

// Order is what a customer asks for.
type Order struct {
	// EventID is the UUID of the event that will tell of this order.
	EventID string
	// UserID is the customer.
	UserID string
	// Items are what was ordered.
	Items []string
	// Bus is the name of the bus that shall carry the event.
	Bus string
}

// ErrDuplicate: there is an order with this event id already. Nothing changed.
var ErrDuplicate = errors.New("shop: an order with this event_id exists")

const insertOrder = `INSERT INTO orders (event_id, user_id, items, bus) VALUES ($1, $2, $3, $4)`

// uniqueViolation is the SQLSTATE of a broken UNIQUE constraint.
const uniqueViolation = "23505"

// Insert writes the order in the caller's transaction. A second order with the
// same event id is ErrDuplicate.
func Insert(ctx context.Context, tx pgx.Tx, o Order) error {
	items, err := json.Marshal(o.Items)
	if err != nil {
		return err
	}
	// JSON goes to PostgreSQL as text. Bytes are taken for BYTEA where nobody asks the
	// server for the column's type first (default_query_exec_mode=exec, for a pooler).
	_, err = tx.Exec(ctx, insertOrder, o.EventID, o.UserID, string(items), o.Bus)
	var said *pgconn.PgError
	if errors.As(err, &said) && said.Code == uniqueViolation {
		return ErrDuplicate
	}
	return err
}

// Placed is the payload of the event: all that a listener will ever know.
type Placed struct {
	EventID string   `json:"event_id"`
	UserID  string   `json:"user_id"`
	Items   []string `json:"items"`
}

// OrderPlaced makes the message that tells of an order.
func OrderPlaced(o Order, topic string) bus.Message {
	// Three fields of text cannot fail to encode.
	payload, _ := json.Marshal(Placed{o.EventID, o.UserID, o.Items})
	return bus.Message{ID: o.EventID, Topic: topic, Key: o.UserID, Payload: payload}
}
