package outbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"outboxplayground/core/bus"
	"outboxplayground/core/checkpoint"
	"outboxplayground/core/pg"
	"outboxplayground/core/pg/pgtest"
	"outboxplayground/core/shop/shoptest"
)

func newWorker(pool *pgxpool.Pool, b bus.Bus) *Worker {
	return &Worker{DB: pool, Bus: b, BusName: "nats",
		Log: slog.New(slog.DiscardHandler)}
}

// placeOrders places n orders and returns their event ids in order.
func placeOrders(t *testing.T, pool *pgxpool.Pool, n int) []string {
	t.Helper()
	ids := make([]string, n)
	for i := range ids {
		order := shoptest.Order("nats")
		ids[i] = order.EventID
		if err := (&Outbox{DB: pool}).PlaceOrder(t.Context(), order); err != nil {
			t.Fatal(err)
		}
	}
	return ids
}

func step(t *testing.T, w *Worker, want int) {
	t.Helper()
	n, err := w.Step(t.Context())
	if err != nil || n != want {
		t.Fatalf("Step = %d, %v, want %d rows", n, err, want)
	}
}

func withStatus(t *testing.T, pool *pgxpool.Pool, status string, attempts int) int {
	t.Helper()
	return pgtest.Count(t, pool,
		`SELECT count(*) FROM outbox WHERE status = $1 AND attempts = $2`,
		status, attempts)
}

func TestStepSendsInOrderAndMarks(t *testing.T) {
	pool, _ := pgtest.Schema(t, 3)
	ids := placeOrders(t, pool, 3)
	b := &shoptest.Bus{}
	step(t, newWorker(pool, b), 3)
	for i, m := range b.Accepted() {
		if m.ID != ids[i] || m.Topic != Topic {
			t.Errorf("message %d is %s on %q, want %s on %q",
				i, m.ID, m.Topic, ids[i], Topic)
		}
	}
	if n := withStatus(t, pool, "sent", 0); n != 3 {
		t.Errorf("%d rows sent, want 3", n)
	}
	step(t, newWorker(pool, b), 0)
}

func TestStepTakesOnlyItsOwnBus(t *testing.T) {
	pool, _ := pgtest.Schema(t, 3)
	placeOrders(t, pool, 1)
	w := newWorker(pool, &shoptest.Bus{})
	w.BusName = "kafka"
	step(t, w, 0)
}

// The article's policy: the fifth failure parks the row, whatever the reason, and
// no later poll looks at it.
func TestFiveFailuresParkTheRow(t *testing.T) {
	pool, _ := pgtest.Schema(t, 3)
	placeOrders(t, pool, 2)
	w := newWorker(pool, &shoptest.Bus{Fail: func(bus.Message) error {
		return fmt.Errorf("%w: connection refused \x00\xff", bus.ErrUnavailable)
	}})
	for i := 1; i < 5; i++ {
		step(t, w, 2)
		if n := withStatus(t, pool, "pending", i); n != 2 {
			t.Fatalf("after failure %d: %d rows pending with %d attempts, want 2",
				i, n, i)
		}
	}
	step(t, w, 2)
	step(t, w, 0)
	if n := withStatus(t, pool, "failed", 5); n != 2 {
		t.Errorf("%d rows failed after 5 attempts, want 2", n)
	}
	reason := `SELECT count(*) FROM outbox WHERE last_error LIKE '%connection refused%'`
	if n := pgtest.Count(t, pool, reason); n != 2 {
		t.Errorf("%d rows say why, want 2", n)
	}
}

// A message that the broker will not have does not hold up the ones behind it.
func TestPoisonDoesNotBlock(t *testing.T) {
	pool, _ := pgtest.Schema(t, 3)
	ids := placeOrders(t, pool, 5)
	w := newWorker(pool, &shoptest.Bus{Fail: func(m bus.Message) error {
		if m.ID == ids[0] {
			return bus.ErrRejected
		}
		return nil
	}})
	step(t, w, 5)
	sent, pending := withStatus(t, pool, "sent", 0), withStatus(t, pool, "pending", 1)
	if sent != 4 || pending != 1 {
		t.Errorf("%d sent, %d pending after one attempt, want 4 and 1", sent, pending)
	}
}

// What the lock does not do: it ends with the claim, so a second worker that polls
// while the first one is between publish and mark sends the same event again.
func TestTwoWorkersSendTwice(t *testing.T) {
	pool, _ := pgtest.Schema(t, 3)
	ids := placeOrders(t, pool, 1)
	b := &shoptest.Bus{}
	first, second := newWorker(pool, b), newWorker(pool, b)
	first.Steps = &checkpoint.Steps{}
	first.Steps.Arm(checkpoint.Plan{At: checkpoint.BeforeMark, EventID: ids[0],
		Do: func(context.Context) error {
			step(t, second, 1)
			return nil
		}})
	step(t, first, 1)
	if n := len(b.Accepted()); n != 2 {
		t.Errorf("%d messages, want the duplicate: 2", n)
	}
	if n := withStatus(t, pool, "sent", 0); n != 1 {
		t.Errorf("%d rows sent, want 1", n)
	}
}

// A worker that dies between publish and mark (here: stops with an error) leaves
// the row pending: sent again, never lost.
func TestDeathBeforeTheMarkRepeats(t *testing.T) {
	pool, _ := pgtest.Schema(t, 3)
	ids := placeOrders(t, pool, 1)
	b := &shoptest.Bus{}
	w := newWorker(pool, b)
	w.Steps = checkpoint.Fail(checkpoint.BeforeMark, ids[0], errBusiness)
	if _, err := w.Step(t.Context()); !errors.Is(err, errBusiness) {
		t.Fatalf("Step = %v, want the failure at before-mark", err)
	}
	if n := withStatus(t, pool, "pending", 0); n != 1 {
		t.Fatalf("%d rows pending, want 1", n)
	}
	step(t, w, 1)
	if n := len(b.Accepted()); n != 2 {
		t.Errorf("%d messages, want 2", n)
	}
}

func TestPausedClaimsNothing(t *testing.T) {
	pool, schema := pgtest.Schema(t, 3)
	placeOrders(t, pool, 1)
	w := newWorker(pool, &shoptest.Bus{})
	w.Gate = pg.Gate(schema)
	if err := pg.Pause(t.Context(), pool, schema, true); err != nil {
		t.Fatal(err)
	}
	step(t, w, 0)
	if err := pg.Pause(t.Context(), pool, schema, false); err != nil {
		t.Fatal(err)
	}
	step(t, w, 1)
}

// Told to stop in the middle of a batch, the worker finishes the row in hand and
// leaves the others as they were.
func TestStopFinishesTheRowInHand(t *testing.T) {
	pool, _ := pgtest.Schema(t, 3)
	placeOrders(t, pool, 3)
	ctx, stop := context.WithCancel(t.Context())
	b := &shoptest.Bus{Fail: func(bus.Message) error { stop(); return nil }}
	if _, err := newWorker(pool, b).Step(ctx); err != nil {
		t.Fatal(err)
	}
	sent, pending := withStatus(t, pool, "sent", 0), withStatus(t, pool, "pending", 0)
	if sent != 1 || pending != 2 {
		t.Errorf("%d sent, %d pending, want 1 and 2", sent, pending)
	}
}

func TestLegibleFitsAColumn(t *testing.T) {
	text := legible(errors.New("a\x00b\xff" + strings.Repeat("雨", 600)))
	if strings.ContainsRune(text, 0) || len([]rune(text)) != 500 ||
		!strings.HasPrefix(text, "ab?") {
		t.Errorf("legible gave %q", text)
	}
}
