package capture

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"time"

	"outboxplayground/core/bus"
	"outboxplayground/core/cdc"
	"outboxplayground/core/inbox"
	"outboxplayground/core/lab"
)

//go:embed README.md README.zh-TW.md *.go
var files embed.FS

// Chapter is the table of contents' entry.
func Chapter() lab.Chapter {
	return lab.Chapter{
		Number: 8,
		Slug:   "change-data-capture",
		Title:  lab.Text{En: "Change data capture", ZhTW: "讀資料庫的 log（CDC）"},
		Question: lab.Text{
			En: "The database logs every insert anyway. " +
				"Why ask the table at all, and who remembers what was sent?",
			ZhTW: "每個 INSERT 資料庫本來就會寫進 log，" +
				"何必再去問那張表？送到哪了，又是誰記得？",
		},
		Topic:       Topic,
		Outbox:      true,
		DeadLetters: true,
		Log:         true,
		Needs: lab.Text{
			En: "PostgreSQL 15 or newer with wal_level=logical, " +
				"and a role that may replicate",
			ZhTW: "PostgreSQL 15 以上、wal_level=logical，還有可以 replicate 的 role",
		},
		Files:   files,
		Section: "5",
		Try:     "two-relays",
		Asks:    "duplicated",
		Lessons: []lab.Lesson{
			{File: "order.go", Marks: []string{
				`outbox.Write(ctx, tx, order.Bus, msg)`,
			}},
			{File: "order_table_less.go", Variant: "table-less", Marks: []string{
				`pg_logical_emit_message(true, $1, $2::text)`,
				`tx.Exec(ctx, emit, prefix`,
			}},
		},
		Variants: []lab.Variant{
			variant("slot", lab.Text{
				En: "the relay reads the outbox's inserts from the log; " +
					"a slot for each bus remembers how far",
				ZhTW: "relay 從 log 讀 outbox 的 INSERT；每個 bus 一個 slot 記住讀到哪",
			}, func(d lab.Deps) lab.Producer {
				return &Outbox{DB: d.DB, Steps: d.Steps}
			}),
			variant("table-less", lab.Text{
				En: "no row either: the event is a " +
					"message in the log, and nowhere else",
				ZhTW: "連 row 都沒有：event 就是 log 裡的一則訊息，別處都找不到",
			}, func(d lab.Deps) lab.Producer {
				return &TableLess{DB: d.DB, Schema: d.Schema, Steps: d.Steps}
			}),
		},
	}
}

func variant(
	name string, note lab.Text, producer func(lab.Deps) lab.Producer,
) lab.Variant {
	return lab.Variant{
		Name: name, Note: note, Declared: declared(),
		Prepare: prepare, Tend: tend,
		Producer: producer, Relay: relay,
		Consumer: func(d lab.Deps) bus.Handler { return consumer(d).Handle },
		Replays:  func(d lab.Deps) lab.Runner { return consumer(d) },
	}
}

func lane(d lab.Deps) cdc.Lane { return cdc.Lane{Schema: d.Schema, Bus: d.BusName} }

func prepare(ctx context.Context, d lab.Deps) error {
	err := cdc.Prepare(ctx, d.ConnConfig(), lane(d))
	if errors.Is(err, cdc.ErrUnsupported) || errors.Is(err, cdc.ErrNotYet) {
		return fmt.Errorf("%w: %w", lab.ErrChapterOff, err)
	}
	return err
}

func tend(ctx context.Context, d lab.Deps) error { return cdc.Tend(ctx, d.DB, lane(d)) }

// term is how long a silent reader keeps its slot: as long as chapter 5's lease.
const term = 3 * time.Second

func relay(d lab.Deps) lab.Runner {
	r, err := cdc.NewRelay(d.DB, d.Bus, lane(d), d.ConnConfig,
		cdc.Config{Term: term, Gate: d.Gate, Steps: d.Steps, Log: d.Log})
	if err != nil {
		return broken{err}
	}
	return r
}

// broken is a relay that cannot be made; it says so when it is run.
type broken struct{ err error }

func (b broken) Run(context.Context) error { return b.err }

// consumer is chapter 6's: an event may still come twice.
func consumer(d lab.Deps) *inbox.Once {
	o := listener(d.DB, d.BusName)
	o.Steps, o.Log = d.Steps, d.Log
	return o
}

// declared is what is to be measured, with a table and without. A slot has one reader,
// so a second relay waits; it takes over when the first has been silent for the term,
// and what both publish is absorbed by the listener.
func declared() []lab.Declaration {
	return []lab.Declaration{
		{Fault: "none", Networked: "ok"},
		{Fault: "rollback", Networked: "ok"},
		{Fault: "broker-down", Networked: "late", Except: lab.Memory("n/a")},
		{Fault: "broker-slow", Networked: "ok", Except: lab.Memory("n/a")},
		{Fault: "crash-before-commit", Networked: "ok"},
		{Fault: "crash-after-commit", Networked: "ok"},
		{Fault: "crash-after-publish", Networked: "ok"},
		{Fault: "ack-lost", Networked: "ok", Except: lab.Memory("n/a")},
		{Fault: "relay-killed", Networked: "ok"},
		{Fault: "crash-after-mark", Networked: "ok", Except: lab.Memory("lost")},
		{Fault: "two-relays", Networked: "ok"},
		{Fault: "zombie-relay", Networked: "ok", Except: lab.Memory("n/a")},
		{Fault: "consumer-crash", Networked: "ok"},
		{Fault: "poison", Networked: "stuck 1"},
		{Fault: "db-down", Networked: "refused 8"},
	}
}
