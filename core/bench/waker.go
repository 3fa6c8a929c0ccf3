package bench

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"outboxplayground/core/bus"
	"outboxplayground/core/outbox"
)

// Waker is a way in which the worker of a lane learns that there is something to
// send. Latency takes any: a chapter that knows another way brings it as one.
type Waker struct {
	Name string
	// Level is the chapter whose table it needs. Default: 5.
	Level int
	// Prepare makes what it needs before the first order. Default: nil, nothing.
	Prepare func(ctx context.Context, l Lane) error
	// Unmarked: it marks no row as sent. What has arrived is all there is to wait for.
	Unmarked bool
	// Run sends what is committed on the lane until ctx ends, and returns nil then.
	Run func(ctx context.Context, l Lane) error
}

// Lane is what a Waker works with: the rows of one bus, and where they go.
type Lane struct {
	Pool *pgxpool.Pool // of the worker alone: its queries are counted
	Bus  bus.Bus
	Name string // the rows' bus
	// Schema is where Pool works.
	Schema string
	Rows   int // of a claim
	// Committed says that a producer in this process has committed since it was last
	// read. Several commits may be one message.
	Committed <-chan struct{}
}

func (l Lane) relay(c outbox.Config) (*outbox.Relay, error) {
	c.Batch = l.Rows
	return outbox.NewRelay(l.Pool, l.Bus, l.Name, c)
}

// Poll is the relay that looks into the table every so often.
func Poll(every time.Duration) Waker {
	return Waker{Name: fmt.Sprintf("poll %v", every), Run: func(ctx context.Context, l Lane) error {
		r, err := l.relay(outbox.Config{Poll: every})
		if err != nil {
			return err
		}
		return r.Run(ctx)
	}}
}

// fallback is the poll of a relay that is woken: the default of outbox.Config.
const fallback = 500 * time.Millisecond

// Wake is the relay that a producer in the same process wakes after each COMMIT. It
// polls as well, at the relay's default interval, for what others commit.
func Wake() Waker {
	return Waker{Name: "wake", Run: func(ctx context.Context, l Lane) error {
		r, err := l.relay(outbox.Config{Poll: fallback})
		if err != nil {
			return err
		}
		var forward sync.WaitGroup
		forward.Go(func() {
			for {
				select {
				case <-ctx.Done():
					return
				case <-l.Committed:
					r.Wake()
				}
			}
		})
		err = r.Run(ctx)
		forward.Wait()
		return err
	}}
}

// Notify is chapter 7's relay: a trigger of the table notifies, and a connection that
// listens wakes the relay. Wakes let the gap pass since the last claim.
func Notify(gap time.Duration) Waker {
	name := "notify"
	if gap > 0 {
		name += " " + gap.String()
	}
	return Waker{Name: name, Level: 7, Run: func(ctx context.Context, l Lane) error {
		sessions := 0 // the waker opens one after the other
		waker, err := outbox.NewWaker(outbox.WakerConfig{
			Channel: outbox.Channel(l.Schema), DB: l.Pool, Name: l.Name,
			Connect: func(ctx context.Context) (*pgx.Conn, error) {
				sessions++
				return pgx.ConnectConfig(ctx, l.Pool.Config().ConnConfig) // a copy, counted like the pool's own
			},
		})
		if err != nil {
			return err
		}
		r, err := l.relay(outbox.Config{Waker: waker, Gap: gap})
		if err != nil {
			return err
		}
		var listening sync.WaitGroup
		listening.Go(func() { _ = waker.Run(ctx) }) // it has no error: without it the relay polls
		err = r.Run(ctx)
		if listening.Wait(); sessions > 1 && err == nil {
			err = fmt.Errorf("it took %d sessions to listen: meanwhile the relay polled, which is not to be measured here", sessions)
		}
		return err
	}}
}
