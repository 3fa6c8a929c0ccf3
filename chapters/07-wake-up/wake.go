package wake

import (
	"context"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"outboxplayground/core/lab"
	"outboxplayground/core/outbox"
)

// The relay's waits. Chapter 6 asked every 500 ms, whether there was anything or not.
const (
	// poll is for rows of which no notification will tell: those in another relay's
	// hands, and those whose time has not come.
	poll = 500 * time.Millisecond
	// idle is for a relay that is going to be woken. It is the promise that does not
	// depend on anybody's hearing.
	idle = 5 * time.Second
	// gap is how far apart wakes may make two claims begin.
	gap = 2 * time.Millisecond
	// lease is chapter 5's.
	lease = 3 * time.Second
)

// relay is chapter 6's, with a waker beside it.
func relay(d lab.Deps) lab.Runner {
	waker, err := outbox.NewWaker(outbox.WakerConfig{
		Channel: outbox.Channel(d.Schema), Connect: connect(d),
		DB: d.DB, Name: d.BusName, Log: d.Log,
	})
	if err != nil {
		return broken{err}
	}
	r, err := outbox.NewRelay(d.DB, d.Bus, d.BusName, outbox.Config{
		Queue: outbox.Leased{For: lease}, Gate: d.Gate, Steps: d.Steps, Log: d.Log,
		Waker: waker, Poll: poll, Idle: idle, Gap: gap,
	})
	if err != nil {
		return broken{err}
	}
	return pair{waker, r}
}

// connect opens the connection that listens. It is none of the pool's: a pool hands
// a session to whoever needs one, and LISTEN belongs to the session.
func connect(d lab.Deps) func(ctx context.Context) (*pgx.Conn, error) {
	return func(ctx context.Context) (*pgx.Conn, error) {
		return pgx.ConnectConfig(ctx, d.ConnConfig())
	}
}

// pair is a relay and who wakes it. They end together.
type pair struct {
	waker *outbox.Waker
	relay *outbox.Relay
}

// Run works until ctx ends.
func (p pair) Run(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var listening sync.WaitGroup
	// It has no error: without it the relay polls.
	listening.Go(func() { _ = p.waker.Run(ctx) })
	err := p.relay.Run(ctx)
	stop()
	listening.Wait()
	return err
}

// broken is a relay that cannot be made; it says so when it is run.
type broken struct{ err error }

func (b broken) Run(context.Context) error { return b.err }
