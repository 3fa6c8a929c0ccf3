package outbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"

	"outboxplayground/core/checkpoint"
)

// Config tunes a Relay. The zero value is usable.
type Config struct {
	// Queue is how rows are claimed and settled. Default: Leased{}, 30 s.
	Queue Queue
	// Policy decides what becomes of rows whose publish failed. Default: Patient{}.
	Policy Policy
	// Batch is how many rows a claim takes at most, 1 to 10,000. Beyond 500 it adds
	// latency and memory, and no throughput. A relay that is killed in a backlog leaves up
	// to ten claims to be published again. Default: 100.
	Batch int
	// Poll is how long the relay waits when nothing is due. Every so often a claim
	// also looks for rows with low ids, so this is how late a row may be found that
	// was committed late or whose lease has run out, or twenty times as long as such a
	// look takes, where that is more. Default: 500 ms.
	Poll time.Duration
	// Waker wakes the relay when a row is written; somebody has to Run it. While it
	// hears, and nothing of the bus is pending, the relay waits for Idle instead of
	// Poll. As soon as a row is pending that is not due, or is in another relay's hands,
	// it is Poll again: no notification tells when a lease runs out. Default: nil.
	Waker *Waker
	// Idle is how long a relay waits that is going to be woken. It alone guarantees
	// that what nobody notified is found. Default: 5 s.
	Idle time.Duration
	// Gap is how long a wake lets pass since the last claim, so that under load one
	// claim takes the rows of many commits. Default: 0.
	Gap time.Duration
	// Probe is the wait of a lane whose broker is in trouble, and of a relay whose
	// database is. Default: 250 ms to 4 s, ± 20 %.
	Probe Backoff
	// PublishTimeout bounds the publish of a batch. Run returns at most 5 s after
	// it. Default: 5 s.
	PublishTimeout time.Duration
	// Gate is asked in the transaction of a claim whether claiming is allowed now.
	// Default: always.
	Gate func(ctx context.Context, tx pgx.Tx) (bool, error)
	// Steps are told where every row is. Default: nil, nobody.
	Steps *checkpoint.Steps
	// Log is told when trouble begins and ends. It does not say which bus that is:
	// give it one that does, by With. Default: discarded.
	Log *slog.Logger
}

const (
	defaultBatch   = 100
	maxBatch       = 10_000
	defaultPoll    = 500 * time.Millisecond
	defaultIdle    = 5 * time.Second
	defaultPublish = 5 * time.Second

	// Statements are bounded too, so that Run ends in time: a claim runs beside a
	// publish, a settlement after it, and a release after that.
	claimTimeout   = 4 * time.Second
	settleTimeout  = 3 * time.Second
	releaseTimeout = time.Second
)

// withDefaults returns a checked copy.
func (c Config) withDefaults() (Config, error) {
	if c.Batch < 0 || c.Batch > maxBatch {
		return c, fmt.Errorf("outbox: Batch is %d, want 1 to %d", c.Batch, maxBatch)
	}
	if c.Poll < 0 || c.Idle < 0 || c.Gap < 0 || c.PublishTimeout < 0 {
		return c, errors.New("outbox: a negative duration")
	}
	if err := c.Probe.check("Probe"); err != nil {
		return c, err
	}
	if p, ok := c.Policy.(Patient); ok {
		if err := p.Backoff.check("Patient.Backoff"); err != nil {
			return c, err
		}
	}
	if c.Queue == nil {
		c.Queue = Leased{}
	}
	if c.Policy == nil {
		c.Policy = Patient{}
	}
	if c.Batch == 0 {
		c.Batch = defaultBatch
	}
	if c.Poll == 0 {
		c.Poll = defaultPoll
	}
	if c.Idle == 0 {
		c.Idle = max(defaultIdle, c.Poll)
	}
	if c.Probe == (Backoff{}) {
		c.Probe = Backoff{Base: 250 * time.Millisecond, Max: 4 * time.Second, Jitter: 0.2}
	}
	if c.PublishTimeout == 0 {
		c.PublishTimeout = defaultPublish
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c, nil
}
