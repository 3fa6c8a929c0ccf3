package bus

import (
	"errors"
	"fmt"
)

// The two failures a driver can be sure about. Everything else is ambiguous: the
// message may have arrived although the publish failed, and only a consumer that
// recognises repeats makes it safe to send it again.
var (
	// ErrUnavailable: the message certainly never reached the broker. Trying again
	// later is free of risk and the message is not to blame.
	ErrUnavailable = errors.New("bus: broker unavailable")
	// ErrRejected: the broker will never take this message (too large, no such
	// destination). Trying again without changing something is pointless.
	ErrRejected = errors.New("bus: message rejected")
)

// Class is the fate of one message as far as the publisher can know it.
type Class int

// The four fates of a published message.
const (
	Accepted    Class = iota // the broker has it
	Unavailable              // it never reached the broker
	Rejected                 // the broker refused it for good
	Ambiguous                // nobody knows
)

// String returns the class in lower case, as reports print it.
func (c Class) String() string {
	switch c {
	case Accepted:
		return "accepted"
	case Unavailable:
		return "unavailable"
	case Rejected:
		return "rejected"
	default:
		return "ambiguous"
	}
}

// Classify tells the class of the outcome of one message. Give it what Outcome
// returned: of a *PublishError, which speaks of several messages, it can only say
// Ambiguous unless all of them share a class.
func Classify(err error) Class {
	var many *PublishError
	switch {
	case err == nil:
		return Accepted
	case errors.As(err, &many):
		return many.class()
	case errors.Is(err, ErrUnavailable):
		return Unavailable
	case errors.Is(err, ErrRejected):
		return Rejected
	default:
		return Ambiguous
	}
}

// PublishError is the outcome of a Publish in which the messages fared
// differently, or failed for different reasons.
type PublishError struct {
	// Outcomes has one entry for each message, in the order of the call; nil means
	// that the broker accepted it.
	Outcomes []error
}

// Error counts the failures and quotes the first one.
func (e *PublishError) Error() string {
	failed, first := 0, error(nil)
	for _, err := range e.Outcomes {
		if err != nil {
			failed++
			first = cmpFirst(first, err)
		}
	}
	return fmt.Sprintf("bus: %d of %d messages failed: %v", failed, len(e.Outcomes), first)
}

func cmpFirst(first, err error) error {
	if first != nil {
		return first
	}
	return err
}

func (e *PublishError) class() Class {
	if len(e.Outcomes) == 0 {
		return Ambiguous
	}
	c := Classify(e.Outcomes[0])
	for _, err := range e.Outcomes[1:] {
		if Classify(err) != c {
			return Ambiguous
		}
	}
	return c
}

// Outcome returns what the error of a Publish says about its i-th message.
func Outcome(err error, i int) error {
	var many *PublishError
	if errors.As(err, &many) && i < len(many.Outcomes) {
		return many.Outcomes[i]
	}
	return err
}

// Join makes the error of a Publish from the outcomes of its messages: nil when
// all were accepted, the outcome itself for a single message, else a
// *PublishError. Drivers end with it.
func Join(outcomes []error) error {
	for _, err := range outcomes {
		if err == nil {
			continue
		}
		if len(outcomes) == 1 {
			return err
		}
		return &PublishError{Outcomes: outcomes}
	}
	return nil
}
