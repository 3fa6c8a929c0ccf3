// Package cdc relays an outbox by reading the database's own log: change data
// capture. PostgreSQL decodes the inserts of committed transactions, in the order of
// their commits, for a replication slot. A slot remembers one position. The Relay
// publishes what comes, and moves the slot forward when the broker has acknowledged;
// no row is claimed, leased or marked.
//
// Each bus has a slot and a publication of its own, whose filter lets through the rows
// of that bus: a broker that is down stops one slot. A slot has one reader at a time;
// another one waits and takes over. What is behind a slot's position is sent. What is
// before it keeps the log from being removed, also when nobody reads: see Slots.
//
// Delivery is at least once: between a broker's acknowledgement and the slot's lies the
// same gap as between publish and mark. The package needs PostgreSQL 15 with
// wal_level=logical, a role that may replicate, and the migrations up to 00801. The
// relay deletes and forgets nothing that has not been sent; what goes with a slot is said
// at Prepare and Remove.
package cdc

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
)

// DB is what a relay needs of the database besides its replication connection.
type DB interface {
	Begin(ctx context.Context) (pgx.Tx, error)
}

// Querier reads: a pool, a connection or a transaction.
type Querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// ErrUnsupported: this server, or this role, does not decode the log. What follows
// says how that is changed.
var ErrUnsupported = errors.New("the log of this PostgreSQL cannot be read")

// ErrNotYet: a new slot waits for every transaction that is open on the server, prepared
// ones included, and one has been open for longer than Prepare may wait.
var ErrNotYet = errors.New("a transaction that is open keeps a slot from being made")

// Lane is the events of one bus in one schema.
type Lane struct {
	// Schema holds the outbox, and begins the names of all that is global in Postgres.
	// Lower case letters, digits and underscores: a slot takes no others.
	Schema string
	Bus    string
}

// Name is what the publication of the lane is called.
func (l Lane) Name() string { return l.Schema + "_" + l.Bus }

// slot is what the slot is called. Publications belong to a database, slots to the whole
// server: the number of the database keeps two playgrounds apart.
func (l Lane) slot(database string) string { return l.Name() + "_" + database }

// The same in SQL, and the number alone.
const (
	numberSQL = `(SELECT oid FROM pg_database WHERE datname = current_database())`
	// slotSQL is the name of the slot of the bus in a row l of slots.
	slotSQL = `current_schema() || '_' || l.bus || '_' || ` + numberSQL
)

// Prefix marks the messages in the log that belong to the lane. Their content is a
// bus.Message as JSON.
func (l Lane) Prefix() string { return l.Schema + "." + l.Bus }
