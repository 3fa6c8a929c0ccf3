package shop

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/jackc/pgx/v5"

	"outboxplayground/core/bus"
	"outboxplayground/core/checkpoint"
)

// Group is the name of the listener's group on every bus, and of the consumer in
// the table processed.
const Group = "mailer"

// Listener sends the confirmation email. It knows the message and nothing else:
// if it looked the order up it could not be fooled by a phantom, and the audit
// could not show one.
type Listener struct {
	DB    DB
	Bus   string // the name of the bus it listens to
	Steps *checkpoint.Steps
}

const (
	recordDelivery = `INSERT INTO processed (event_id, consumer, bus) VALUES ($1, $2, $3)`
	sendEmail      = `INSERT INTO emails (event_id, recipient, bus) VALUES ($1, $2, $3)`
)

// SendEmail is the effect: the confirmation of an event, in the caller's transaction.
func SendEmail(ctx context.Context, tx pgx.Tx, eventID, recipient, busName string) error {
	_, err := tx.Exec(ctx, sendEmail, eventID, recipient, busName)
	return err
}

// Handle is a bus.Handler: nil means that the email is sent and the message can
// be acknowledged. Delivered twice, it sends two emails.
func (l *Listener) Handle(ctx context.Context, m bus.Message) error {
	var order Placed
	if err := json.Unmarshal(m.Payload, &order); err != nil {
		return fmt.Errorf("listener: event %s: payload: %w", m.ID, err)
	}
	if err := l.Steps.Reach(ctx, checkpoint.BeforeEffect, m.ID); err != nil {
		return err
	}
	err := pgx.BeginFunc(ctx, l.DB, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, recordDelivery, m.ID, Group, l.Bus); err != nil {
			return err
		}
		return SendEmail(ctx, tx, m.ID, order.UserID, l.Bus)
	})
	if err != nil {
		return fmt.Errorf("listener: event %s: %w", m.ID, err)
	}
	if err := l.Steps.Reach(ctx, checkpoint.AfterEffect, m.ID); err != nil {
		return err
	}
	return l.Steps.Reach(ctx, checkpoint.BeforeAck, m.ID)
}
