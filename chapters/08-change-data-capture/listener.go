package capture

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"outboxplayground/core/bus"
	"outboxplayground/core/inbox"
	"outboxplayground/core/shop"
)

// listener is the shop's listener, through the inbox. Until chapter 5 it wrote down
// every delivery and sent an email for each. Here writing down comes first, and its
// unique key decides whether there is an email to send.
func listener(db inbox.Beginner, busName string) *inbox.Once {
	return &inbox.Once{DB: db, Consumer: shop.Group, Bus: busName,
		Effect: confirm(busName)}
}

// confirm returns the effect. What it writes through tx is committed together with
// the record of the delivery, or not at all.
func confirm(busName string) inbox.Effect {
	return func(ctx context.Context, tx pgx.Tx, m bus.Message) error {
		order, err := read(m.Payload)
		if err != nil {
			// No further attempt helps.
			return fmt.Errorf("%w: %w", inbox.ErrUnreadable, err)
		}
		if err := shop.SendEmail(ctx, tx, m.ID, order.UserID, busName); err != nil {
			return err
		}
		return delivered(order.UserID)
	}
}

func read(payload []byte) (order shop.Placed, err error) {
	if err := json.Unmarshal(payload, &order); err != nil {
		return order, err
	}
	if order.UserID == "" {
		return order, errors.New("it names no user")
	}
	return order, nil
}

var errBounced = errors.New("the mail system does not take this address")

// delivered stands for a mail system that refuses some addresses, so that you can see
// a listener fail: those that begin with "bounce". The email that was written a line
// above is rolled back with it.
func delivered(recipient string) error {
	if strings.HasPrefix(recipient, "bounce") {
		return errBounced
	}
	return nil
}
