package lab

import (
	"context"
	"fmt"
	"strings"
	"time"

	"outboxplayground/core/audit"
	"outboxplayground/core/bus"
	"outboxplayground/core/shop"
)

// pollEvery is how often the lab looks at tables and brokers.
const pollEvery = 20 * time.Millisecond

// poll asks until the answer is yes, an error, or ctx ends.
func poll(ctx context.Context, done func() (bool, error)) error {
	return pollEach(ctx, pollEvery, done)
}

func pollEach(ctx context.Context, every time.Duration, done func() (bool, error)) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		ok, err := done()
		if ok || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

func (r *run) count(ctx context.Context, sql string, args ...any) (n int, err error) {
	err = r.pool.QueryRow(ctx, sql, args...).Scan(&n)
	return n, err
}

// state is how far the events of a run have come.
type state struct {
	orders, unsent, emails, withEmail int
	held                              int64
}

const (
	statePlain = `
SELECT (SELECT count(*) FROM orders), 0, (SELECT count(*) FROM emails),
	(SELECT count(*) FROM orders o WHERE EXISTS (SELECT FROM emails e WHERE e.event_id = o.event_id))`

	countPrepared = `
SELECT count(*) FROM pg_prepared_xacts WHERE database = current_database() AND starts_with(gid, $1 || '.')`

	stateOutbox = `
SELECT (SELECT count(*) FROM orders), (SELECT count(*) FROM outbox WHERE status = 'pending'),
	(SELECT count(*) FROM emails),
	(SELECT count(*) FROM orders o WHERE EXISTS (SELECT FROM emails e WHERE e.event_id = o.event_id))`
)

func (r *run) look(ctx context.Context) (s state, err error) {
	switch {
	case r.chapter.Log:
		s, err = r.lookIntoLog(ctx)
	case r.chapter.Outbox:
		err = r.pool.QueryRow(ctx, stateOutbox).Scan(&s.orders, &s.unsent, &s.emails, &s.withEmail)
	default:
		err = r.pool.QueryRow(ctx, statePlain).Scan(&s.orders, &s.unsent, &s.emails, &s.withEmail)
	}
	if err == nil && r.variant.Recovers != nil { // what is prepared will be ended, without a person
		s.unsent, err = r.count(ctx, countPrepared, r.schema)
	}
	if err != nil {
		return s, err
	}
	if b, ok := r.bus.(bus.Backlogger); ok {
		if s.held, err = b.Backlog(ctx, r.chapter.Topic, shop.Group); err != nil {
			s.held, err = 1, nil // cannot be asked now: it may hold something
		}
	}
	return s, err
}

// settle waits until every order so far is through: answered, its row sent, its
// effect done, and nothing left with the bus.
func (r *run) settle(ctx context.Context) error {
	var last state
	err := poll(ctx, func() (ok bool, err error) {
		if err := r.unplannedDeath(); err != nil {
			return false, err
		}
		last, err = r.look(ctx)
		if err != nil || last.unsent > 0 || last.held > 0 || last.withEmail != last.orders {
			return false, err
		}
		return r.handsEmpty(ctx)
	})
	if err != nil {
		return fmt.Errorf("waiting for the orders so far: %d of %d have an email, %d rows are pending, the bus holds %d: %w",
			last.withEmail, last.orders, last.unsent, last.held, err)
	}
	return nil
}

// quiesce waits until nothing can come any more: no row is pending, the bus holds
// nothing, and no email came for a while.
func (r *run) quiesce(ctx context.Context) error {
	emails, since := -1, time.Now()
	return pollEach(ctx, silenceEvery, func() (bool, error) {
		if err := r.unplannedDeath(); err != nil {
			return false, err
		}
		s, err := r.look(ctx)
		if err != nil || s.unsent > 0 || s.held > 0 || s.emails != emails {
			emails, since = s.emails, time.Now()
			return false, err
		}
		if time.Since(since) <= r.silence() {
			return false, nil
		}
		empty, err := r.handsEmpty(ctx)
		since = time.Now()
		return empty, err
	})
}

// handsEmpty asks the consumer's own process what its bus still holds. A consumer
// that was kept from working, by a busy machine or a slow table, is as silent as one
// that has nothing to do, and not every broker tells others what it has in hand. The
// answer takes as long as the process stands still.
func (r *run) handsEmpty(ctx context.Context) (bool, error) {
	p, from := r.find(Consuming), len(r.journal.all())
	if p == nil {
		return false, nil // died this moment: the next look says so
	}
	if err := p.tell(order{Backlog: Consuming}); err != nil {
		return false, nil
	}
	line, _, err := r.journal.await(ctx, p.ended, from, func(l Line) bool { return l.Step == sayBacklog })
	if err != nil {
		return false, ctx.Err()
	}
	return line.Text == "0", nil
}

// unplannedDeath is an error when a child has ended that no fault was to strike.
func (r *run) unplannedDeath() error {
	for _, p := range r.procs {
		if p.over() && !p.struck {
			return fmt.Errorf("the process of the %s ended by itself (%s), saying %q", p.roles[0].Label, p.cmd.ProcessState, firstLine(p.complaint()))
		}
	}
	return nil
}

// firstLine is what a process complained about, without the stack of a panic and
// short enough for a report.
func firstLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return fmt.Sprintf("%.300s", line)
}

// shortSilence is enough where the bus counts what is in a consumer's hands: zero
// then means that nothing can be delivered again.
const shortSilence = time.Second

// silenceEvery is how often the lab looks during a silence: every look is a question to
// the broker too, and costs it more than the answer is worth.
const silenceEvery = 50 * time.Millisecond

// silence is how long nothing must come. In memory there is no broker to be asked
// from here, and RabbitMQ does not count what a consumer holds.
func (r *run) silence() time.Duration {
	switch r.spec.Bus {
	case "inmemory", "rabbitmq":
		return 2 * audit.Redelivery(r.spec.Bus)
	}
	return shortSilence
}
