package cdc_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"outboxplayground/core/bus"
	"outboxplayground/core/cdc"
	"outboxplayground/core/checkpoint"
	"outboxplayground/core/fault"
	"outboxplayground/core/outbox"
	"outboxplayground/core/pg"
	"outboxplayground/core/pg/pgtest"
	"outboxplayground/core/shop/shoptest"
)

var errNetwork = errors.New("connection reset by peer")

// Ids are given at the INSERT, and the log is in the order of COMMITs. A reader that
// remembers the last id has gone past the first row when it becomes visible.
func TestTheOrderIsThatOfCommits(t *testing.T) {
	r, b := newRig(t, "nats"), &shoptest.Bus{}
	start(t, r.relay(t, b, "nats", cdc.Config{}))
	slow, err := r.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer slow.Rollback(context.Background())
	first, err := writeIn(t.Context(), slow, "nats") // id 1
	if err != nil {
		t.Fatal(err)
	}
	second := r.write(t, "nats", 1)[0] // id 2, committed before
	arrives(t, b, []string{second})
	cursor := pgtest.Count(t, r.pool, `SELECT max(id) FROM outbox`)
	if err := slow.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := pgtest.Count(t, r.pool, `SELECT count(*) FROM outbox WHERE id > $1`, cursor); n != 0 {
		t.Errorf("a reader behind id %d finds %d rows: this test does not show what it should", cursor, n)
	}
	arrives(t, b, []string{second, first})
	m := b.Accepted()[1]
	if m.Topic != "safe" || m.Key != "u1" || string(m.Payload) != `{"n": 1}` || m.Headers["a"] != "b" {
		t.Errorf("it arrived as %+v", m)
	}
}

// Nothing is written into the outbox, whatever is sent; and a rollback sends nothing.
func TestNoUpdateForAnEvent(t *testing.T) {
	r, b := newRig(t, "nats"), &shoptest.Bus{}
	errBusiness := errors.New("business")
	err := pgx.BeginFunc(t.Context(), r.pool, func(tx pgx.Tx) error {
		_, err := writeIn(t.Context(), tx, "nats")
		return errors.Join(err, errBusiness)
	})
	if !errors.Is(err, errBusiness) {
		t.Fatal(err)
	}
	want := r.write(t, "nats", 300)
	stop := start(t, r.relay(t, b, "nats", cdc.Config{}))
	arrives(t, b, want)
	r.confirmed(t, "nats")
	stop()
	await(t, func() bool { // the backend that inserted reports when it is idle
		r.exec(t, `SELECT pg_stat_force_next_flush()`)
		return pgtest.Count(t, r.pool, `SELECT n_tup_ins FROM pg_stat_user_tables WHERE relid = 'outbox'::regclass`) >= 300
	})
	if n := pgtest.Count(t, r.pool, `SELECT n_tup_upd + n_tup_del FROM pg_stat_user_tables WHERE relid = 'outbox'::regclass`); n != 0 {
		t.Errorf("%d rows were updated for 300 events", n)
	}
	stats, err := cdc.ReadStats(t.Context(), r.pool)
	if err != nil || stats.Sent != 300 || stats.Pending != 0 || stats.OldestPendingLagMS != nil {
		t.Errorf("%+v, %v, want 300 sent", stats, err)
	}
}

// What was published and not confirmed comes again with the next reader; what was
// confirmed does not. All of a large transaction comes again: there is no position inside.
func TestACrashBetweenPublishAndConfirm(t *testing.T) {
	r, b := newRig(t, "nats"), &shoptest.Bus{}
	sure := r.write(t, "nats", 2)
	var doubtful []string
	err := pgx.BeginFunc(t.Context(), r.pool, func(tx pgx.Tx) error {
		for range 30 {
			id, err := writeIn(t.Context(), tx, "nats")
			if err != nil {
				return err
			}
			doubtful = append(doubtful, id)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	all := append(slices.Clone(sure), doubtful...)
	last := doubtful[29]
	steps := checkpoint.Fail(checkpoint.BeforeMark, last, errNetwork) // ends the session, as death does
	start(t, r.relay(t, b, "nats", cdc.Config{Batch: 10, Steps: steps}))
	arrives(t, b, append(slices.Clone(all), doubtful...))
}

// An outage stops the lane at its oldest event. Nobody overtakes, nothing is spent, and
// the lane of another bus goes on.
func TestAnOutageStopsOneLane(t *testing.T) {
	r := newRig(t, "nats", "redis")
	var down atomic.Bool
	down.Store(true)
	var tried atomic.Int64
	broken := &shoptest.Bus{Fail: func(bus.Message) error {
		if tried.Add(1); down.Load() {
			return bus.ErrUnavailable
		}
		return nil
	}}
	well := &shoptest.Bus{}
	waiting, others := r.write(t, "nats", 5), r.write(t, "redis", 5)
	probed := &probes{}
	start(t, r.relay(t, broken, "nats", cdc.Config{Steps: &checkpoint.Steps{Observe: probed.observe}}))
	start(t, r.relay(t, well, "redis", cdc.Config{}))
	arrives(t, well, others)
	await(t, func() bool { return tried.Load() > 10 })
	if first, others := probed.of(waiting[0]), probed.of(waiting[4]); first < 3 || others > 1 {
		t.Errorf("the first event was tried %d times and the last one %d: want one probe at a time", first, others)
	}
	r.confirmed(t, "redis")
	stats, err := cdc.ReadStats(t.Context(), r.pool)
	if n := stats.ByBus["nats"]; err != nil || n.Pending != 5 || n.OldestPendingLagMS == nil || stats.ByBus["redis"].Pending != 0 {
		t.Errorf("%+v, %v, want 5 pending on nats alone", stats, err)
	}
	if len(broken.Accepted()) != 0 {
		t.Error("the broken bus took something")
	}
	down.Store(false)
	arrives(t, broken, waiting)
	if n := pgtest.Count(t, r.pool, `SELECT count(*) FROM outbox WHERE status <> 'pending' OR attempts > 0`); n > 0 {
		t.Errorf("the outage cost %d rows an attempt", n)
	}
}

// probes counts how often each event was about to be published.
type probes struct {
	mu    sync.Mutex
	times map[string]int
}

func (p *probes) observe(at checkpoint.Name, id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.times == nil {
		p.times = map[string]int{}
	}
	if at == checkpoint.BeforePublish {
		p.times[id]++
	}
}

func (p *probes) of(id string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.times[id]
}

// A refused event is written down and the lane goes on. A person's retry is in the log
// too, as a row of retries.
func TestARefusedEventWaitsForAPerson(t *testing.T) {
	r := newRig(t, "nats")
	var poison atomic.Value
	poison.Store("")
	b := &shoptest.Bus{Fail: func(m bus.Message) error {
		if m.ID == poison.Load() {
			return bus.ErrRejected
		}
		return nil
	}}
	ids := r.write(t, "nats", 3)
	poison.Store(ids[1])
	start(t, r.relay(t, b, "nats", cdc.Config{}))
	arrives(t, b, []string{ids[0], ids[2]})
	var failed []outbox.Row
	var err error
	await(t, func() bool { // it is written down after the others have arrived
		failed, err = outbox.Failed(t.Context(), r.pool, outbox.Filter{})
		return err != nil || len(failed) > 0
	})
	if err != nil || len(failed) != 1 || failed[0].EventID != ids[1] || failed[0].Attempts != 1 {
		t.Fatalf("%+v, %v, want the poisoned row", failed, err)
	}
	poison.Store("")
	if _, err := outbox.RetryAs(t.Context(), r.pool, failed[0].ID, "anna"); err != nil {
		t.Fatal(err)
	}
	arrives(t, b, []string{ids[0], ids[2], ids[1]})
	r.confirmed(t, "nats")
	if s, err := cdc.ReadStats(t.Context(), r.pool); err != nil || s.Sent != 3 || s.Failed != 0 {
		t.Errorf("%+v, %v, want 3 sent", s, err)
	}
}

// An event without a row gets one when it is refused, and then it can be given back.
func TestAMessageInTheLog(t *testing.T) {
	r := newRig(t, "nats")
	var refuse atomic.Bool
	refuse.Store(true)
	b := &shoptest.Bus{Fail: func(bus.Message) error {
		if refuse.Load() {
			return bus.ErrRejected
		}
		return nil
	}}
	start(t, r.relay(t, b, "nats", cdc.Config{}))
	m := bus.Message{ID: uuid.NewString(), Topic: "safe", Key: "u1", Payload: []byte(`{"n":1}`), Headers: map[string]string{"a": "b"}}
	content, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	const emit = `SELECT pg_logical_emit_message(true, $1, $2::text)`
	r.exec(t, emit, r.schema+".redis", string(content)) // another lane's
	r.exec(t, emit, r.lane("nats").Prefix(), string(content))
	var failed []outbox.Row
	await(t, func() bool {
		failed, err = outbox.Failed(t.Context(), r.pool, outbox.Filter{})
		return err != nil || len(failed) > 0
	})
	r.confirmed(t, "nats") // the row that it got is in the log as well, and is no event
	if failed, err = outbox.Failed(t.Context(), r.pool, outbox.Filter{}); err != nil || len(failed) != 1 || failed[0].EventID != m.ID || failed[0].Attempts != 1 {
		t.Fatalf("%+v, %v, want the refused message, refused once", failed, err)
	}
	refuse.Store(false)
	if _, err := outbox.Retry(t.Context(), r.pool, failed[0].ID); err != nil {
		t.Fatal(err)
	}
	arrives(t, b, []string{m.ID})
	r.confirmed(t, "nats")
	if got := b.Accepted(); len(got) != 1 || got[0].Headers["a"] != "b" || got[0].Key != "u1" || got[0].Topic != "safe" {
		t.Errorf("it arrived as %+v", got)
	}
}

// A broker that hangs does not cost the slot: the server hears of the reader all the
// time, although the reader has nothing new to say.
func TestABrokerThatHangsCostsNoSlot(t *testing.T) {
	r, hanging := newRig(t, "nats"), &hang{entered: make(chan struct{}), release: make(chan struct{})}
	const term = 300 * time.Millisecond
	start(t, r.relay(t, hanging, "nats", cdc.Config{Term: term, Batch: 5, PublishTimeout: patience}))
	r.write(t, "nats", 50) // more than a relay takes ahead, so that it stops reading as well
	<-hanging.entered
	reader := `SELECT coalesce(max(active_pid), 0) FROM pg_replication_slots WHERE starts_with(slot_name, $1)`
	before := pgtest.Count(t, r.pool, reader, r.lane("nats").Name())
	time.Sleep(3 * term) // the time is what is tried here
	if after := pgtest.Count(t, r.pool, reader, r.lane("nats").Name()); before == 0 || after != before {
		t.Errorf("the reader was process %d of the server and is %d after three times its term", before, after)
	}
	close(hanging.release)
	await(t, func() bool { return len(hanging.Accepted()) == 50 })
}

// hang is a double of a broker that answers the first publish late.
type hang struct {
	shoptest.Bus
	entered, release chan struct{}
	once             atomic.Bool
}

func (h *hang) Publish(ctx context.Context, msgs ...bus.Message) error {
	if !h.once.Swap(true) {
		close(h.entered)
		<-h.release
	}
	return h.Bus.Publish(ctx, msgs...)
}

// A slot has one reader. The other one waits, and goes on where the first one stopped.
func TestASecondReaderTakesOver(t *testing.T) {
	r, a, b := newRig(t, "nats"), &shoptest.Bus{}, &shoptest.Bus{}
	stopA := start(t, r.relay(t, a, "nats", cdc.Config{}))
	arrives(t, a, r.write(t, "nats", 1))
	refused := make(chan struct{})
	var once atomic.Bool
	steps := &checkpoint.Steps{Observe: func(at checkpoint.Name, id string) {
		if at == checkpoint.Claimed && id == "" && !once.Swap(true) {
			close(refused)
		}
	}}
	start(t, r.relay(t, b, "nats", cdc.Config{Steps: steps}))
	<-refused
	arrives(t, a, append(idsOf(a), r.write(t, "nats", 3)...))
	stopA()
	arrives(t, b, r.write(t, "nats", 3))
}

// The server that was cut off by a broken network gives the slot up by itself.
func TestACutConnectionIsMadeAgain(t *testing.T) {
	proxy, err := fault.Listen()
	if err != nil {
		t.Fatal(err)
	}
	defer proxy.Close()
	r, b := newRig(t, "nats"), &shoptest.Bus{}
	r.dial = proxy.Dialer("db/relay")
	stop := start(t, r.relay(t, b, "nats", cdc.Config{}))
	defer stop()
	first := r.write(t, "nats", 3)
	arrives(t, b, first)
	r.confirmed(t, "nats")
	outage, err := proxy.Inject(fault.Rule{Role: "db", Kind: fault.Outage, TTL: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	second := r.write(t, "nats", 3)
	await(t, func() bool { return outage.Hits() > 2 })
	outage.Lift()
	arrives(t, b, append(first, second...))
}

// After pause has answered nothing is taken in hand; what others write into the log does
// not pile up meanwhile.
func TestPause(t *testing.T) {
	r, b := newRig(t, "nats"), &shoptest.Bus{}
	if err := pg.Pause(t.Context(), r.pool, r.schema, true); err != nil {
		t.Fatal(err)
	}
	claimed := make(chan string, 1)
	steps := &checkpoint.Steps{Observe: func(at checkpoint.Name, id string) {
		if at == checkpoint.Claimed && id != "" {
			claimed <- id
		}
	}}
	start(t, r.relay(t, b, "nats", cdc.Config{Gate: pg.Gate(r.schema), Steps: steps}))
	r.confirmed(t, "nats") // of others' news it takes note
	id := r.write(t, "nats", 1)[0]
	select {
	case <-claimed:
		t.Error("a paused relay claims")
	case <-time.After(300 * time.Millisecond): // nothing is to happen
	}
	if err := pg.Pause(t.Context(), r.pool, r.schema, false); err != nil {
		t.Fatal(err)
	}
	if got := <-claimed; got != id {
		t.Errorf("claimed %s, want %s", got, id)
	}
	arrives(t, b, []string{id})
}
