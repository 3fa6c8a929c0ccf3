package audit

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// Validity is a verdict in one word. In JSON it is true, false or "unknown".
type Validity string

// The three answers.
const (
	True    Validity = "true"
	False   Validity = "false"
	Unknown Validity = "unknown"
)

// MarshalJSON writes true, false or "unknown".
func (v Validity) MarshalJSON() ([]byte, error) {
	switch v {
	case True, False:
		return []byte(v), nil
	case Unknown:
		return []byte(`"unknown"`), nil
	}
	return nil, fmt.Errorf("audit: %q is no validity", string(v))
}

// UnmarshalJSON reads what MarshalJSON writes, and nothing else.
func (v *Validity) UnmarshalJSON(data []byte) error {
	switch {
	case bytes.Equal(data, []byte("true")):
		*v = True
	case bytes.Equal(data, []byte("false")):
		*v = False
	case bytes.Equal(data, []byte(`"unknown"`)):
		*v = Unknown
	default:
		return fmt.Errorf("audit: %s is neither true, false nor \"unknown\"", data)
	}
	return nil
}

var (
	_ json.Marshaler   = Validity("")
	_ json.Unmarshaler = (*Validity)(nil)
)

// Verdict counts what became of events. For one event every count is 0 or 1.
type Verdict struct {
	Orders     int `json:"orders"`     // committed
	Delivered  int `json:"delivered"`  // orders whose email was sent, at least once
	Lost       int `json:"lost"`       // orders whose email will never be sent
	Duplicated int `json:"duplicated"` // events with more than one email
	Phantom    int `json:"phantom"`    // events handled for an order that does not exist
	Reordered  int `json:"reordered"`  // always 0 for a single event
	Stuck      int `json:"stuck"`      // parked as failed until a person acts
	Refused    int `json:"refused"`    // a refused order leaves no row, so 0 here
	Pending    int `json:"pending"`    // still to come, or not to be told yet
}

// Valid is False when anything is bad for good, else Unknown while something is
// pending, else True.
func (v Verdict) Valid() Validity {
	switch {
	case v.Lost+v.Duplicated+v.Phantom+v.Reordered+v.Stuck > 0:
		return False
	case v.Pending > 0:
		return Unknown
	}
	return True
}
