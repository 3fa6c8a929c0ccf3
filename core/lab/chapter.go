// Package lab holds what a chapter is, and runs chapters.
package lab

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"outboxplayground/core/audit"
	"outboxplayground/core/bus"
	"outboxplayground/core/checkpoint"
	"outboxplayground/core/pg"
	"outboxplayground/core/shop"
)

// Text is a sentence in the two languages of the playground.
type Text struct {
	En   string `json:"en"`
	ZhTW string `json:"zh-TW"`
}

// Chapter is a lesson: what it is called, what it asks, and how its parts are
// made. It is plain data; nothing runs until somebody calls a constructor.
type Chapter struct {
	Number   int
	Slug     string // the folder without its number
	Title    Text
	Question Text
	Topic    string // the stream its messages travel on: plain or safe
	Outbox   bool   // whether its schema has an outbox, hence a relay and a pause
	// DeadLetters: its schema has dead letters, hence a listener that can replay them.
	DeadLetters bool
	// Log: its relay reads the database's log. No row is marked as sent, and its Prepare
	// makes a slot for every bus, named after schema and bus.
	Log bool
	// Listens: its relays are woken by LISTEN. Without anybody who hears they poll.
	Listens bool
	// Needs is what it asks of the Postgres; empty where any will do.
	Needs Text
	// InDoubtAfter: its orders are prepared transactions, and one that is older than this
	// has no coordinator any more. Zero: its orders are no prepared transactions.
	InDoubtAfter time.Duration
	Variants     []Variant
	// Files are the chapter's texts and its lesson: README.md, README.zh-TW.md and
	// the compiled order.go.
	Files fs.FS
	// Section is the part of the article that the chapter is about, such as "1"; ""
	// where it goes beyond it.
	Section string
	// Lessons are the files to read, the first one first. Empty: order.go, unmarked.
	Lessons []Lesson
	// Try is the fault that a reader shall try first. Default: broker-down.
	Try string
	// Asks is the figure that the reader shall predict, one of Figures. Default: delivered.
	Asks string
}

// Lesson is a file to read and what to look at in it.
type Lesson struct {
	File string // among the chapter's Files
	// Variant is the one whose lesson this is; "" is every other.
	Variant string
	// Marks are pieces of the lines that matter; each has to be found in the file.
	Marks []string
}

// LessonsOf returns the files to read for a variant.
func (c Chapter) LessonsOf(variant string) []Lesson {
	own := func(l Lesson) bool { return l.Variant == variant }
	shared := func(l Lesson) bool { return l.Variant == "" }
	switch {
	case len(c.Lessons) == 0:
		return []Lesson{{File: "order.go"}}
	case slices.ContainsFunc(c.Lessons, own):
		return slices.DeleteFunc(slices.Clone(c.Lessons), func(l Lesson) bool { return !own(l) })
	}
	return slices.DeleteFunc(slices.Clone(c.Lessons), func(l Lesson) bool { return !shared(l) })
}

// ErrChapterOff: this Postgres cannot do what a chapter needs. The error that wraps
// it says how to turn the chapter on; no other chapter is affected.
var ErrChapterOff = errors.New("this chapter is off")

// Variant is one way of doing what the chapter is about. The first one listed is
// the default.
type Variant struct {
	Name     string
	Note     Text
	Declared []Declaration
	// DedupeWindow is how long NATS recognises a repeated id. Default: two minutes.
	DedupeWindow time.Duration
	// GivesUp: the relay parks rows when an outage has lasted a while. An outage in
	// the lab then lasts until it has done so.
	GivesUp bool
	// Prepare makes what a lane needs in Postgres besides its schema, such as a slot. It
	// is called before the first order, more than once, and changes nothing then. Bus
	// and Steps of its Deps are nil. Default: nil, nothing.
	Prepare func(ctx context.Context, d Deps) error
	// Tend looks after what Prepare made, now and then, while no relay of this process
	// does: its bus is off, or has not been reached yet. Default: nil, nothing.
	Tend     func(ctx context.Context, d Deps) error
	Producer func(Deps) Producer
	Relay    func(Deps) Runner // nil where nothing is relayed
	Consumer func(Deps) bus.Handler
	// Recovers finishes what a coordinator has left prepared; nil where that is a person's
	// part. It runs beside the producer in a run of the lab, and where the relays run in
	// an interactive chapter.
	Recovers func(Deps) Runner
	// Replays runs the replays of dead letters that somebody asked for, beside the
	// consumer; nil where there are none.
	Replays func(Deps) Runner
}

// Deps is what the parts of a chapter are made from. All of it belongs to the
// caller, who also closes it.
type Deps struct {
	DB      shop.DB
	Bus     bus.Bus
	BusName string
	Steps   *checkpoint.Steps
	// Schema is where DB works. Whatever is global in Postgres (a channel, a slot, a
	// publication, a prepared transaction) has it as the beginning of its name.
	Schema string
	// Shared: orders of the chapter's other variants are in Schema too, as they are in an
	// interactive chapter.
	Shared bool
	// ConnConfig returns how to open a connection of one's own, beside DB and through
	// the same network. It is a copy; who opens the connection closes it.
	ConnConfig func() *pgx.ConnConfig
	// Gate is asked in the transaction of a claim whether claiming is allowed now.
	Gate func(ctx context.Context, tx pgx.Tx) (bool, error)
	Log  *slog.Logger
}

// Producer places orders. Its error means that the order was refused and nothing
// was kept, except for pg.ErrCommitUnknown.
type Producer interface {
	PlaceOrder(ctx context.Context, order shop.Order) error
}

// Runner is a role that works until its context ends.
type Runner interface {
	Run(ctx context.Context) error
}

// Declaration is what a chapter promises to measure under one fault.
type Declaration struct {
	Fault string
	// Networked is the outcome on RabbitMQ, Kafka, NATS and Redis, in the words of
	// the audit: "ok", "late", "lost 35", "lost", "duplicated", "n/a".
	Networked string
	// Except names buses on which it is another one, "inmemory" among them.
	Except map[string]string
}

// Memory is an Except that names the outcome on the bus that dies with its process.
func Memory(outcome string) map[string]string {
	return map[string]string{"inmemory": outcome}
}

// On returns the declared outcome on a bus.
func (d Declaration) On(busName string) string {
	if o, ok := d.Except[busName]; ok {
		return o
	}
	return d.Networked
}

func chapterNumbered(chapters []Chapter, number int) (Chapter, bool) {
	for _, c := range chapters {
		if c.Number == number {
			return c, true
		}
	}
	return Chapter{}, false
}

// Variant returns the variant of that name, the first one for "".
func (c Chapter) Variant(name string) (Variant, bool) {
	for _, v := range c.Variants {
		if name == "" || v.Name == name {
			return v, true
		}
	}
	return Variant{}, false
}

// Schema is the name of the interactive chapter's schema, and the prefix of its
// names on every broker.
func (c Chapter) Schema() string { return pg.Schema(c.Number) }

// Source is the chapter for the audit, in the schema where db works.
func (c Chapter) Source(db audit.DB) audit.Source {
	return audit.Source{Chapter: c.Number, DB: db, Outbox: c.Outbox, DeadLetters: c.DeadLetters, Log: c.Log,
		InDoubtAfter: c.InDoubtAfter}
}
