package outbox

import (
	"encoding/json"
	"fmt"

	"outboxplayground/core/bus"
)

// A statement that changes data inside WITH is carried out whole, whatever the
// outer one reads of it, and both are one transaction: there is no moment at which
// one exists without the other. The event is written once if the change has touched
// a row, and not at all if it has touched none.
const withEvent = `
WITH change AS (
%s
)
INSERT INTO outbox (event_id, bus, topic, key, headers, payload)
SELECT $%d::uuid, $%d::text, $%d::text, $%d::text, $%d::jsonb, $%d::jsonb
WHERE EXISTS (SELECT FROM change)`

// eventColumns is how many parameters withEvent adds.
const eventColumns = 6

// OneStatement joins a producer's statement and the event into one statement, for
// those to whom the round trips of BEGIN and COMMIT matter: it costs a single one.
// The statement must be one INSERT, UPDATE or DELETE with RETURNING, without a
// semicolon; args are its parameters, $1 and so on. Execute the result, with the
// arguments returned, by Exec of a pool, a connection or a transaction; RowsAffected
// is then 1 where the event was written and 0 where the change touched no row.
//
// Execute it as it is: what does not stand in this one statement is not part of its
// transaction. Write has no such trap, and is the choice wherever there is more than
// one statement to make.
func OneStatement(statement string, args []any, busName string, m bus.Message) (sql string, all []any, err error) {
	headers, err := headersOf(m)
	if err != nil {
		return "", nil, err
	}
	places := []any{statement}
	for i := range eventColumns {
		places = append(places, len(args)+1+i)
	}
	all = append(append(all, args...), m.ID, busName, m.Topic, m.Key, headers, string(m.Payload))
	return fmt.Sprintf(withEvent, places...), all, nil
}

// headersOf is the column's form: nil where there are none.
func headersOf(m bus.Message) (*string, error) {
	if len(m.Headers) == 0 {
		return nil, nil
	}
	raw, err := json.Marshal(m.Headers)
	if err != nil {
		return nil, fmt.Errorf("outbox: headers of event %s: %w", m.ID, err)
	}
	text := string(raw)
	return &text, nil
}
