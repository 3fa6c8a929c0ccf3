package twophase

import (
	"context"
	"embed"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"outboxplayground/core/bus"
	"outboxplayground/core/inbox"
	"outboxplayground/core/lab"
	"outboxplayground/core/prepared"
	"outboxplayground/core/shop"
)

//go:embed README.md README.zh-TW.md *.go
var files embed.FS

// Chapter is the table of contents' entry.
func Chapter() lab.Chapter {
	return lab.Chapter{
		Number: 9,
		Slug:   "two-phase-commit",
		Title:  lab.Text{En: "Two-phase commit", ZhTW: "兩階段提交"},
		Question: lab.Text{
			En: "The order is prepared, its event is sent, " +
				"and the coordinator dies. Who knows whether to commit?",
			ZhTW: "訂單已經 prepare，event 也送出了，這時 coordinator 掛掉。" +
				"該 commit 還是 rollback，誰知道？",
		},
		Topic:        Topic,
		DeadLetters:  true,
		InDoubtAfter: inDoubtAfter,
		Files:        files,
		Section:      "2",
		Try:          "crash-after-publish",
		Asks:         "phantom",
		Needs: lab.Text{
			En:   "PostgreSQL with max_prepared_transactions above 0",
			ZhTW: "max_prepared_transactions 大於 0 的 PostgreSQL",
		},
		Lessons: []lab.Lesson{
			{File: "order.go", Marks: []string{
				`err := pgx.BeginFunc(ctx, phaseOne{s.DB, name}`,
				`err = s.publish(ctx, order)`,
				`err = inDoubt(err)`,
			}},
			{File: "coordinator.go", Marks: []string{
				`tag, err := t.Exec(ctx, `,
				`if err == nil || heard && errors.Is(err, prepared.ErrUnknown) {`,
			}},
			{File: "order_recovering.go", Variant: "recovering", Marks: []string{
				`if err := decide(ctx, s.DB, name, order); err != nil {`,
			}},
			{File: "recovery.go", Variant: "recovering", Marks: []string{
				`if err := r.again(ctx, m); err != nil {`,
			}},
		},
		Variants: []lab.Variant{twoPhase(), recovering()},
	}
}

func twoPhase() lab.Variant {
	return lab.Variant{
		Name: "two-phase",
		Note: lab.Text{
			En: "PREPARE TRANSACTION, publish, COMMIT PREPARED; " +
				"what is left in doubt waits for a person",
			ZhTW: "PREPARE TRANSACTION、publish、COMMIT PREPARED；" +
				"懸而未決的 transaction 等人來處理",
		},
		Declared: declared("phantom", "stuck"),
		Prepare:  enabled,
		Producer: func(d lab.Deps) lab.Producer { p := coordinator(d); return &p },
		Consumer: func(d lab.Deps) bus.Handler { return consumer(d).Handle },
		Replays:  func(d lab.Deps) lab.Runner { return consumer(d) },
	}
}

func recovering() lab.Variant {
	v := twoPhase()
	v.Name = "recovering"
	v.Note = lab.Text{
		En: "the decision is written down before the publish; " +
			"a restarted coordinator sends again and commits",
		ZhTW: "publish 前先把決定寫下來；重啟後的 coordinator 會重送並 commit",
	}
	v.Declared = declared("ok", "ok")
	v.Producer = func(d lab.Deps) lab.Producer { return &Recovering{coordinator(d)} }
	v.Recovers = func(d lab.Deps) lab.Runner {
		return &Recovery{DB: d.DB, Bus: d.Bus, BusName: d.BusName, Schema: d.Schema,
			Shared: d.Shared, Steps: d.Steps, Log: d.Log}
	}
	return v
}

func coordinator(d lab.Deps) TwoPhase {
	return TwoPhase{DB: d.DB, Bus: d.Bus, Steps: d.Steps,
		Name: func(eventID string) string { return prepared.Name(d.Schema, eventID) }}
}

// inDoubtAfter is beyond all that a living coordinator takes: the publish and the
// second phase, each to its limit.
const inDoubtAfter = publishTimeout + insistLimit + 2*time.Second

// consumer is chapter 6's: whatever comes twice is absorbed, so that all that goes
// wrong here is the producer's.
func consumer(d lab.Deps) *inbox.Once {
	effect := func(ctx context.Context, tx pgx.Tx, m bus.Message) error {
		var order shop.Placed
		if err := json.Unmarshal(m.Payload, &order); err != nil {
			return fmt.Errorf("%w: %w", inbox.ErrUnreadable, err)
		}
		return shop.SendEmail(ctx, tx, m.ID, order.UserID, d.BusName)
	}
	return &inbox.Once{DB: d.DB, Consumer: shop.Group, Bus: d.BusName, Effect: effect,
		Steps: d.Steps, Log: d.Log}
}

// enabled refuses a server on which nothing can be prepared.
func enabled(ctx context.Context, d lab.Deps) error {
	room, err := prepared.Room(ctx, d.DB)
	if err != nil || room > 0 {
		return err
	}
	return fmt.Errorf("%w: this PostgreSQL has max_prepared_transactions = 0: "+
		"ALTER SYSTEM SET max_prepared_transactions = 16, and restart it",
		lab.ErrChapterOff)
}

// declared is what is to be measured; stopped is the outcome where the coordinator
// stops after the publish or does not hear its answer. Left to a person, the order is
// in doubt: a phantom where its event was handled, until it is committed; stuck where
// it was not, for in memory the message dies with the coordinator.
func declared(stopped, stoppedInMemory string) []lab.Declaration {
	return []lab.Declaration{
		{Fault: "none", Networked: "ok"},
		{Fault: "rollback", Networked: "ok"},
		{Fault: "broker-down", Networked: "refused 35", Except: lab.Memory("n/a")},
		{Fault: "broker-slow", Networked: "ok", Except: lab.Memory("n/a")},
		{Fault: "crash-before-commit", Networked: "ok"},
		{Fault: "crash-after-commit", Networked: "ok", Except: lab.Memory("lost")},
		{Fault: "crash-after-publish", Networked: stopped,
			Except: lab.Memory(stoppedInMemory)},
		{Fault: "ack-lost", Networked: stopped, Except: lab.Memory("n/a")},
		{Fault: "relay-killed", Networked: "n/a"},
		{Fault: "crash-after-mark", Networked: "n/a"},
		{Fault: "two-relays", Networked: "n/a"},
		{Fault: "zombie-relay", Networked: "n/a"},
		{Fault: "consumer-crash", Networked: "ok"},
		{Fault: "poison", Networked: "refused 1"},
		{Fault: "db-down", Networked: "refused 8"},
	}
}
