package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"outboxplayground/core/bus"
)

// readAhead and settleSent are all the SQL of the bare loop.
const (
	readAhead = `
SELECT id, event_id::text, topic, payload FROM outbox
WHERE status = 'pending' AND (bus, id) > ($1, $2) AND bus <= $1
ORDER BY bus, id LIMIT %d`

	settleSent = `UPDATE outbox SET status = 'sent', sent_at = clock_timestamp() WHERE id = ANY ($1)`
)

// piece is a batch on its way through the bare loop.
type piece struct {
	ids  []int64
	msgs []bus.Message
}

// reference drains the table with three stages and nothing else: it measures what
// this machine, this database and this bus give at all. Any error ends it.
func (s *site) reference(ctx context.Context, d *Drained) error {
	if err := s.fill(ctx, reference, s.Rows); err != nil {
		return err
	}
	start := time.Now()
	g, ctx := errgroup.WithContext(ctx)
	work, done := make(chan piece, len(s.buses)), make(chan []int64, 2*len(s.buses))
	g.Go(func() error { defer close(work); return s.read(ctx, work) })
	g.Go(func() error {
		defer close(done)
		publishers, ctx := errgroup.WithContext(ctx)
		for _, b := range s.buses {
			publishers.Go(func() error { return publish(ctx, b, work, done) })
		}
		return publishers.Wait()
	})
	g.Go(func() error { return s.mark(ctx, done) })
	err := g.Wait()
	d.ReferencePerSecond = rate(s.Rows, start)
	return err
}

func (s *site) read(ctx context.Context, work chan<- piece) error {
	sql, last := fmt.Sprintf(readAhead, s.Batch), int64(0)
	for {
		rows, err := s.pool.Query(ctx, sql, s.Bus, last)
		if err != nil {
			return err
		}
		var p piece
		var m bus.Message
		_, err = pgx.ForEachRow(rows, []any{&last, &m.ID, &m.Topic, &m.Payload}, func() error {
			p.ids, p.msgs = append(p.ids, last), append(p.msgs, m)
			m.Payload = nil // the next row gets bytes of its own
			return nil
		})
		if err != nil || len(p.ids) == 0 {
			return err
		}
		select {
		case work <- p:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func publish(ctx context.Context, b bus.Bus, work <-chan piece, done chan<- []int64) error {
	for p := range work {
		if err := b.Publish(ctx, p.msgs...); err != nil {
			return err
		}
		select {
		case done <- p.ids:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// mark settles what has piled up in one statement.
func (s *site) mark(ctx context.Context, done <-chan []int64) error {
	for ids := range done {
		for more := true; more && len(ids) < 4*s.Batch; {
			select {
			case next, ok := <-done:
				ids, more = append(ids, next...), ok
			default:
				more = false
			}
		}
		if _, err := s.pool.Exec(ctx, settleSent, ids); err != nil {
			return err
		}
	}
	return nil
}
