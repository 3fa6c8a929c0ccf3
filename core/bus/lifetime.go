package bus

import (
	"context"
	"sync"
	"time"
)

// Lifetime is what a driver needs to close in order: it counts the work under way
// and ends what belongs to the bus and not to one call. It stands where a stored
// context would: a bus outlives the context that it was opened with. Make one with
// NewLifetime; safe for concurrent use.
type Lifetime struct {
	mu    sync.Mutex
	over  bool
	done  chan struct{}
	work  sync.WaitGroup
	bound map[int]context.CancelFunc
	last  int // key in bound
}

// NewLifetime begins one.
func NewLifetime() *Lifetime {
	return &Lifetime{done: make(chan struct{}), bound: map[int]context.CancelFunc{}}
}

// Enter counts a piece of work in, until leave is called. After End it is false, and
// leave is nil.
func (l *Lifetime) Enter() (leave func(), ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over {
		return nil, false
	}
	l.work.Add(1)
	return l.work.Done, true
}

// Go runs do in a goroutine that Wait waits for. After End it is false and does
// nothing.
func (l *Lifetime) Go(do func()) bool {
	leave, ok := l.Enter()
	if ok {
		go func() { defer leave(); do() }()
	}
	return ok
}

// End lets nothing new begin and closes Done. It waits for nothing and may be called
// twice.
func (l *Lifetime) End() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over {
		return
	}
	l.over = true
	close(l.done)
	for _, end := range l.bound {
		end()
	}
}

// Wait returns when all that has entered has left. Call End first.
func (l *Lifetime) Wait() { l.work.Wait() }

// Done is closed by End.
func (l *Lifetime) Done() <-chan struct{} { return l.done }

// Over tells whether End was called.
func (l *Lifetime) Over() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.over
}

// Bound returns a context that ends with ctx and with the lifetime. Call cancel when
// it is no longer needed.
func (l *Lifetime) Bound(ctx context.Context) (bound context.Context, cancel context.CancelFunc) {
	bound, end := context.WithCancel(ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over {
		end()
		return bound, end
	}
	l.last++
	key := l.last
	l.bound[key] = end
	return bound, func() {
		end()
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.bound, key)
	}
}

// Pause waits for d, or less when ctx or the lifetime ends, which is false.
func (l *Lifetime) Pause(ctx context.Context, d time.Duration) bool {
	return PauseUntil(ctx, l.done, d)
}
