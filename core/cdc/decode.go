package cdc

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/google/uuid"
	"github.com/jackc/pglogrepl"

	"outboxplayground/core/bus"
)

// item is one thing that the log says, in the order of commits.
type item struct {
	msg   bus.Message
	retry int64         // the id of a row that a person gave back: msg is in the table
	upTo  pglogrepl.LSN // everything before this position has come; 0: says nothing
	done  bool          // nothing (more) to publish
	bad   error         // why it is no event: it is parked and not published
	tries int           // failed publishes that count
}

// decoder turns the output of pgoutput into items. It belongs to one connection.
type decoder struct {
	lane      Lane
	relations map[uint32]*pglogrepl.RelationMessage
	within    bool // a transaction whose end has not come
}

// decode reads one message of the plugin; nil where it says nothing to us.
func (d *decoder) decode(data []byte) (*item, error) {
	m, err := pglogrepl.Parse(data)
	if err != nil {
		return nil, fmt.Errorf("cdc: %w", err)
	}
	switch m := m.(type) {
	case *pglogrepl.RelationMessage:
		d.relations[m.RelationID] = m
	case *pglogrepl.InsertMessage:
		return d.insert(m)
	case *pglogrepl.LogicalDecodingMessage:
		return d.message(m)
	case *pglogrepl.BeginMessage:
		d.within = true
	case *pglogrepl.CommitMessage:
		d.within = false
		return &item{upTo: m.TransactionEndLSN, done: true}, nil
	}
	return nil, nil
}

// insert reads a row of the outbox, or of the retries. A row that was refused before it
// ever had one is inserted as failed: it waits for a person.
func (d *decoder) insert(m *pglogrepl.InsertMessage) (*item, error) {
	rel, ok := d.relations[m.RelationID]
	if !ok {
		return nil, fmt.Errorf("cdc: a row of the unknown relation %d", m.RelationID)
	}
	row := map[string][]byte{}
	for i, c := range m.Tuple.Columns {
		row[rel.Columns[i].Name] = c.Data // nil for NULL
	}
	if rel.RelationName == "retries" {
		id, err := strconv.ParseInt(string(row["outbox_id"]), 10, 64)
		return &item{retry: id}, err
	}
	if string(row["status"]) != "pending" {
		return nil, nil
	}
	it := &item{msg: bus.Message{ID: string(row["event_id"]), Topic: string(row["topic"]),
		Key: string(row["key"]), Payload: row["payload"]}}
	it.readHeaders(row["headers"])
	return it, nil
}

// readHeaders: headers that are not strings make the row unreadable, and no error of the
// stream, which would end at this place again and again.
func (it *item) readHeaders(raw []byte) {
	it.msg.Headers, it.bad = nil, nil
	if raw == nil {
		return
	}
	if err := json.Unmarshal(raw, &it.msg.Headers); err != nil {
		it.msg.Headers, it.bad = nil, fmt.Errorf("unreadable headers: %w", err)
	}
}

// message reads what pg_logical_emit_message wrote. The server filters no messages:
// those of all others in this database come by as well. Nobody checks what is in them.
func (d *decoder) message(m *pglogrepl.LogicalDecodingMessage) (*item, error) {
	if m.Prefix != d.lane.Prefix() || !m.Transactional {
		return nil, nil
	}
	it := &item{}
	err := json.Unmarshal(m.Content, &it.msg)
	if err == nil && !isUUID(it.msg.ID) {
		err = errors.New("its ID is no UUID")
	}
	if err != nil {
		it.bad = fmt.Errorf("unreadable message at %s: %w", m.LSN, err)
		it.msg.Headers, it.msg.Payload = nil, wrapped(m.Content)
		if !isUUID(it.msg.ID) {
			it.msg.ID = madeUp(m)
		}
	}
	return it, nil
}

// isUUID takes the usual form alone, which is also the one that goes into the outbox.
func isUUID(id string) bool { return len(id) == 36 && uuid.Validate(id) == nil }

// madeUp is an id for a message that has none. It is the same when the message comes
// again: position and content are.
func madeUp(m *pglogrepl.LogicalDecodingMessage) string {
	return uuid.NewSHA1(uuid.Nil, fmt.Appendf(nil, "%s %s %s", m.Prefix, m.LSN, m.Content)).String()
}
