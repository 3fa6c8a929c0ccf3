package inbox_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"outboxplayground/core/bus"
	"outboxplayground/core/inbox"
	"outboxplayground/core/pg/pgtest"
)

func TestAMessageThatFailsIsKeptWithItsReason(t *testing.T) {
	pool := schema(t)
	f := &fails{err: errRefused}
	o, m := once(pool, f.effect), message()
	handle(t, o, m)
	if n := f.calls.Load(); n != 5 {
		t.Errorf("%d attempts, want 5", n)
	}
	l := one(t, pool, "")
	if *l.EventID != m.ID || l.MessageID != m.ID || l.Topic != m.Topic || l.Key != m.Key || string(l.Payload) != string(m.Payload) ||
		l.Headers["trace"] != "t1" || l.Consumer != consumer || l.Bus != "nats" {
		t.Errorf("%+v is not the message %+v", l, m)
	}
	if l.Reason != errRefused.Error() || l.Attempts != 5 || l.Status != inbox.Dead || l.FirstAt.After(l.FailedAt) {
		t.Errorf("%+v, want five attempts, the reason, and times in their order", l)
	}
	handle(t, o, m) // delivered again: it waits for a person now
	if n := f.calls.Load(); n != 5 {
		t.Errorf("the effect was tried %d times, want no sixth", n)
	}
	counted(t, pool, 0, 1, 2)
	one(t, pool, inbox.Dead)
}

func TestWhatCannotBeReadIsDeadAtOnce(t *testing.T) {
	pool := schema(t)
	f := &fails{err: fmt.Errorf("%w: unexpected end of JSON input", inbox.ErrUnreadable)}
	m := message()
	m.Payload, m.Key = []byte("\xff\x00{"), "u\x00\xff1"
	m.Headers = map[string]string{"zero": "a\x00b"}
	handle(t, once(pool, f.effect), m)
	l := one(t, pool, inbox.Dead)
	if f.calls.Load() != 1 || l.Attempts != 1 {
		t.Errorf("tried %d times, want once: %+v", f.calls.Load(), l)
	}
	if string(l.Payload) != "\xff\x00{" || l.Headers["zero"] != "a\x00b" || l.Key != "u?1" {
		t.Errorf("payload %q, headers %q, key %q: want the bytes as they came", l.Payload, l.Headers, l.Key)
	}
}

// A stranger's message may have no usable id. It cannot be recognised, but it is kept.
func TestAMessageWithoutAnIDIsKept(t *testing.T) {
	pool := schema(t)
	f := &fails{}
	o := once(pool, f.effect)
	ids := []string{"", "order 17", "\x00\xff", "0a4f1c2ex3b4dx4e5fx8a9bxc0d1e2f3a4b5", strings.Repeat("x", 5000)}
	for _, id := range ids {
		handle(t, o, bus.Message{ID: id, Topic: "safe"})
	}
	found := letters(t, pool, inbox.Filter{})
	if len(found)+pgtest.Count(t, pool, `SELECT count(*) FROM processed`) != len(ids) {
		t.Errorf("%d letters of %d messages: %+v", len(found), len(ids), found)
	}
	for _, l := range found {
		if l.EventID != nil || l.Attempts != 0 || len(l.Payload) != 0 || !strings.Contains(l.Reason, "UUID") {
			t.Errorf("%+v", l)
		}
	}
}

// 21 returns in a row are one more than RabbitMQ 4 forgives by default; the letter is
// written as soon as the database takes it, and until then the message is not let go.
func TestALetterThatCannotBeWrittenKeepsTheMessage(t *testing.T) {
	pool := schema(t)
	f := &fails{err: fmt.Errorf("%w: nonsense", inbox.ErrUnreadable)}
	db := &away{Pool: pool}
	o, m := once(db, func(ctx context.Context, tx pgx.Tx, m bus.Message) error {
		if f.calls.Load() < 21 {
			db.refusals.Store(1) // the next transaction: that of the letter
		}
		return f.effect(ctx, tx, m)
	}), message()
	for i := range 21 {
		if err := o.Handle(t.Context(), m); err == nil {
			t.Fatalf("delivery %d: acknowledged, and there is no letter", i+1)
		}
	}
	counted(t, pool, 0, 0, 0)
	handle(t, o, m)
	one(t, pool, inbox.Dead)
	counted(t, pool, 0, 1, 1)
}

// Two consumers fail with the same message at once: one letter.
func TestOneLetterForOneMessage(t *testing.T) {
	pool := schema(t)
	for range 10 {
		m := message()
		f := &fails{err: errRefused}
		o := once(pool, f.effect)
		for _, err := range together(3, func(int) error { return o.Handle(t.Context(), m) }) {
			if err != nil {
				t.Fatal(err)
			}
		}
		if n := pgtest.Count(t, pool, `SELECT count(*) FROM dead_letters WHERE event_id = $1`, m.ID); n != 1 {
			t.Fatalf("%d letters, want 1", n)
		}
	}
}

func TestLettersPagesAndFilters(t *testing.T) {
	pool := schema(t)
	kill := func(busName, reason string) int64 {
		f := &fails{err: fmt.Errorf("%w: %s", inbox.ErrUnreadable, reason)}
		o := once(pool, f.effect)
		o.Bus = busName
		m := message()
		handle(t, o, m)
		return int64(pgtest.Count(t, pool, `SELECT id FROM dead_letters WHERE event_id = $1`, m.ID))
	}
	a, b, c := kill("nats", "100% full"), kill("kafka", "Full"), kill("nats", "no such user")
	if err := inbox.Replay(t.Context(), pool, c, "anna"); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name   string
		filter inbox.Filter
		want   []int64
	}{
		{"all", inbox.Filter{}, []int64{a, b, c}},
		{"a page", inbox.Filter{Limit: 1}, []int64{a}},
		{"the page after it", inbox.Filter{Limit: 1, After: a}, []int64{b}},
		{"one bus", inbox.Filter{Bus: "nats"}, []int64{a, c}},
		{"a reason, in any case", inbox.Filter{Reason: "full"}, []int64{a, b}},
		{"a per cent sign is no wildcard", inbox.Filter{Reason: "1%f"}, nil},
		{"only the dead ones", inbox.Filter{Status: inbox.Dead}, []int64{a, b}},
		{"requested", inbox.Filter{Status: inbox.Requested}, []int64{c}},
	} {
		found := letters(t, pool, tt.filter)
		ids := make([]int64, len(found))
		for i, l := range found {
			ids[i] = l.ID
		}
		if fmt.Sprint(ids) != fmt.Sprint(tt.want) && len(ids)+len(tt.want) > 0 {
			t.Errorf("%s: %v, want %v", tt.name, ids, tt.want)
		}
	}
}

// dead makes a dead letter and returns its Once and its number.
func dead(t *testing.T, pool *pgxpool.Pool, f *fails) (*inbox.Once, int64, bus.Message) {
	t.Helper()
	o, m := once(pool, f.effect), message()
	handle(t, o, m)
	return o, int64(pgtest.Count(t, pool, `SELECT id FROM dead_letters WHERE event_id = $1`, m.ID)), m
}

func TestAReplayRunsTheEffectOnTheStoredMessage(t *testing.T) {
	pool := schema(t)
	f := &fails{err: errRefused}
	o, id, m := dead(t, pool, f)
	if err := inbox.Replay(t.Context(), pool, id, "anna"); err != nil {
		t.Fatal(err)
	}
	if err := inbox.Replay(t.Context(), pool, id, "bert"); !errors.Is(err, inbox.ErrNotDead) {
		t.Errorf("while it is under way: %v, want ErrNotDead", err)
	}
	if err := o.Replays(t.Context()); err != nil { // not mended yet
		t.Fatal(err)
	}
	l := one(t, pool, inbox.Dead)
	if l.Attempts != 10 || l.Replays != 1 || *l.RequestedBy != "anna" || l.RequestedAt == nil {
		t.Errorf("%+v, want ten attempts and who asked", l)
	}
	f.mended.Store(true)
	if err := inbox.Replay(t.Context(), pool, id, "bert"); err != nil {
		t.Fatal(err)
	}
	if err := o.Replays(t.Context()); err != nil {
		t.Fatal(err)
	}
	l = one(t, pool, inbox.Replayed)
	if l.Attempts != 11 || l.Replays != 2 || *l.RequestedBy != "bert" {
		t.Errorf("%+v, want eleven attempts and the second who asked", l)
	}
	counted(t, pool, 1, 1, 1)
	kept := pgtest.Count(t, pool, `SELECT count(*) FROM replays WHERE dead_letter = $1 AND ended_at >= requested_at
		AND (requested_by, outcome) IN (('anna', 'dead'), ('bert', 'replayed'))`, id)
	if kept != 2 {
		t.Errorf("%d of two replays are kept with what came of them", kept)
	}
	handle(t, o, m) // a late delivery
	counted(t, pool, 1, 1, 2)
	for _, tt := range []struct {
		id   int64
		want error
	}{{id, inbox.ErrNotDead}, {1 << 40, inbox.ErrUnknown}, {-1, inbox.ErrUnknown}} {
		if err := inbox.Replay(t.Context(), pool, tt.id, "eve"); !errors.Is(err, tt.want) {
			t.Errorf("replay of %d: %v, want %v", tt.id, err, tt.want)
		}
	}
}

func TestOfParallelRequestsExactlyOneWins(t *testing.T) {
	pool := schema(t)
	for range 10 {
		_, id, _ := dead(t, pool, &fails{err: errRefused})
		won := 0
		for _, err := range together(6, func(i int) error { return inbox.Replay(context.Background(), pool, id, fmt.Sprint(i)) }) {
			switch {
			case err == nil:
				won++
			case !errors.Is(err, inbox.ErrNotDead):
				t.Errorf("a loser got %v", err)
			}
		}
		if won != 1 {
			t.Fatalf("%d requests won, want 1", won)
		}
	}
}

// Several processes run the same replay: one effect.
func TestAReplayHasOneEffectHoweverManyRunIt(t *testing.T) {
	pool := schema(t)
	for i := range 10 {
		f := &fails{err: errRefused}
		o, id, _ := dead(t, pool, f)
		f.mended.Store(true)
		if err := inbox.Replay(t.Context(), pool, id, "anna"); err != nil {
			t.Fatal(err)
		}
		for _, err := range together(4, func(int) error { return o.Replays(t.Context()) }) {
			if err != nil {
				t.Fatal(err)
			}
		}
		counted(t, pool, i+1, i+1, i+1)
	}
}

// The process that runs a replay dies: the request stays, and another one does it.
func TestARequestOutlivesTheProcessThatRanIt(t *testing.T) {
	pool := schema(t)
	f := &fails{err: errRefused}
	o, id, _ := dead(t, pool, f)
	if err := inbox.Replay(t.Context(), pool, id, "anna"); err != nil {
		t.Fatal(err)
	}
	dying, die := context.WithCancel(t.Context())
	victim := once(pool, func(ctx context.Context, tx pgx.Tx, m bus.Message) error {
		if err := email(ctx, tx, m); err != nil {
			return err
		}
		die()
		return nil // the commit finds ctx ended
	})
	if err := victim.Replays(dying); err == nil {
		t.Fatal("the victim says that it succeeded")
	}
	counted(t, pool, 0, 1, 1)
	f.mended.Store(true)
	if err := o.Replays(t.Context()); err != nil {
		t.Fatal(err)
	}
	counted(t, pool, 1, 1, 1)
	one(t, pool, inbox.Replayed)
}

func TestReplayAllOfAFilter(t *testing.T) {
	pool := schema(t)
	f := &fails{err: errRefused}
	for range 3 {
		dead(t, pool, f)
	}
	other := once(pool, (&fails{err: errors.New("disk full")}).effect)
	handle(t, other, message())
	n, err := inbox.ReplayAll(t.Context(), pool, inbox.Filter{Reason: "REFUSES", Bus: "nats"}, "anna")
	if err != nil || n != 3 {
		t.Fatalf("%d, %v, want 3", n, err)
	}
	if n, err := inbox.ReplayAll(t.Context(), pool, inbox.Filter{Reason: "refuses"}, "bert"); err != nil || n != 0 {
		t.Errorf("again: %d, %v, want none", n, err)
	}
	f.mended.Store(true)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- once(pool, f.effect).Run(ctx) }()
	until(t, "all three are replayed", func() bool {
		return len(letters(t, pool, inbox.Filter{Status: inbox.Replayed})) == 3
	})
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	counted(t, pool, 3, 4, 4)
	one(t, pool, inbox.Dead)
}

// A replay belongs to the bus and the consumer of its message.
func TestRunLeavesOthersReplaysAlone(t *testing.T) {
	pool := schema(t)
	f := &fails{err: errRefused}
	_, id, _ := dead(t, pool, f)
	f.mended.Store(true)
	if err := inbox.Replay(t.Context(), pool, id, "anna"); err != nil {
		t.Fatal(err)
	}
	kafka, invoices := once(pool, f.effect), once(pool, f.effect)
	kafka.Bus, invoices.Consumer = "kafka", "invoices"
	for _, o := range []*inbox.Once{kafka, invoices} {
		if err := o.Replays(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	one(t, pool, inbox.Requested)
	counted(t, pool, 0, 1, 1)
}

func TestDelaysGrow(t *testing.T) {
	c := inbox.WithDefaults(inbox.Config{})
	want := []time.Duration{100, 200, 400, 800, 1000, 1000}
	for i, ms := range want {
		least, most := ms*time.Millisecond, (ms+ms/4)*time.Millisecond
		if d := inbox.Delay(c, i+1); d < least || d > most {
			t.Errorf("after failure %d: %v, want %v to %v", i+1, d, least, most)
		}
	}
	if d := inbox.Delay(c, 1<<30); d > 1250*time.Millisecond {
		t.Errorf("after very many: %v", d)
	}
}
