// Package audit reads the tables of a chapter and says what became of an event.
// It believes rows only: no counter and no log of the code under test is asked.
package audit

import (
	"errors"
	"time"
)

// ErrUnknown: no table of the chapter has a row of this event. It was never placed
// there, or it was rolled back before anything came of it.
var ErrUnknown = errors.New("audit: no row tells of this event")

// Trail is all that a chapter's tables say about one event, read in one snapshot.
type Trail struct {
	EventID string   `json:"event_id"`
	Chapter int      `json:"chapter"`
	Bus     string   `json:"bus"`
	Valid   Validity `json:"valid"`
	// Why says in a sentence what the verdict rests on.
	Why   string `json:"why"`
	Order *Order `json:"order"`
	// InDoubt is set while the order is a prepared transaction.
	InDoubt   *InDoubt   `json:"in_doubt"`
	Outbox    *Outbox    `json:"outbox"`
	Processed []Delivery `json:"processed"`
	Emails    []Email    `json:"emails"`
	// DeadLetters is empty where the chapter has no table of them.
	DeadLetters []DeadLetter `json:"dead_letters"`
	Verdict     Verdict      `json:"verdict"`
	// AsOf is the database's clock when the rows were read.
	AsOf time.Time `json:"as_of"`

	elsewhere    bool          // of the Source
	log          bool          // of the Source
	inDoubtAfter time.Duration // of the Source
}

// Order is the row of the business.
type Order struct {
	ID        int64     `json:"id"`
	UserID    string    `json:"user_id"`
	Items     []string  `json:"items"`
	Bus       string    `json:"bus"`
	CreatedAt time.Time `json:"created_at"`
}

// Outbox is the row that waits to be sent, or was.
type Outbox struct {
	ID        int64      `json:"id"`
	Bus       string     `json:"bus"`
	Topic     string     `json:"topic"`
	Status    string     `json:"status"`
	Attempts  int        `json:"attempts"`
	LastError *string    `json:"last_error"`
	CreatedAt *time.Time `json:"created_at"`
	SentAt    *time.Time `json:"sent_at"`
}

// Delivery is a row of processed: the listener handled the event.
type Delivery struct {
	Consumer   string    `json:"consumer"`
	Bus        string    `json:"bus"`
	At         time.Time `json:"at"`
	Deliveries int       `json:"deliveries"`
}

// Email is the effect.
type Email struct {
	Recipient string    `json:"recipient"`
	Bus       string    `json:"bus"`
	SentAt    time.Time `json:"sent_at"`
}

// DeadLetter is a message that the listener gave up.
type DeadLetter struct {
	ID       int64  `json:"id"`
	Consumer string `json:"consumer"`
	Bus      string `json:"bus"`
	// Status is dead (waits for a person), requested (a replay is under way) or
	// replayed (handled after all).
	Status   string    `json:"status"`
	Reason   string    `json:"reason"`
	Attempts int       `json:"attempts"`
	FirstAt  time.Time `json:"first_at"`
	FailedAt time.Time `json:"failed_at"`
}

// found tells whether there is any row at all.
func (t *Trail) found() bool {
	return t.Order != nil || t.InDoubt != nil || t.Outbox != nil || t.hasEffect() || len(t.DeadLetters) > 0
}

// parked returns the dead letter that keeps the event from its email, nil if none
// does: a letter is over when it was replayed.
func (t *Trail) parked() *DeadLetter {
	for i, d := range t.DeadLetters {
		if d.Status != "replayed" && len(t.Emails) == 0 {
			return &t.DeadLetters[i]
		}
	}
	return nil
}

// absorbed counts the deliveries beyond the first that had no effect.
func (t *Trail) absorbed() (n int) {
	for _, p := range t.Processed {
		n += p.Deliveries - 1
	}
	return n
}

// hasEffect tells whether the listener has handled the event.
func (t *Trail) hasEffect() bool { return len(t.Processed)+len(t.Emails) > 0 }

// firstEffect is when the listener first handled the event; zero if it never did.
func (t *Trail) firstEffect() time.Time {
	var first time.Time
	earlier := func(at time.Time) {
		if first.IsZero() || at.Before(first) {
			first = at
		}
	}
	for _, p := range t.Processed {
		earlier(p.At)
	}
	for _, e := range t.Emails {
		earlier(e.SentAt)
	}
	return first
}
