package bench

import (
	"context"
	"fmt"
)

// pileRows adds rows with ids from $1 on. Event ids grow with them: they are not in
// what is measured, and random ones would make filling take several times as long.
const pileRows = `
INSERT INTO outbox (event_id, bus, topic, payload, status, created_at, sent_at)
SELECT lpad(to_hex(n), 32, '0')::uuid, $3, 'safe', $4::jsonb, $5, clock_timestamp(),
       CASE WHEN $5 = 'sent' THEN clock_timestamp() END
FROM generate_series($1::bigint + 1, $1::bigint + $2::bigint) n`

// pilePart is how many rows are written between two words to the reader.
const pilePart = 250_000

// pile adds n rows behind the first have ones, and leaves the table as a quiet night
// does: vacuumed and analysed.
func (s *site) pile(ctx context.Context, have, n int, status string, tell func(string)) error {
	for done := 0; done < n; {
		part := min(pilePart, n-done)
		tell(fmt.Sprintf("filling: %d of %d %s rows", done, n, status))
		if _, err := s.pool.Exec(ctx, pileRows, have+done, part, s.Bus, string(payload(s.PayloadBytes)), status); err != nil {
			return err
		}
		done += part
	}
	return s.exec(ctx, `VACUUM ANALYZE outbox`)
}

// exec runs statements that answer nothing, each in a transaction of its own.
func (s *site) exec(ctx context.Context, statements ...string) error {
	for _, sql := range statements {
		if _, err := s.pool.Exec(ctx, sql); err != nil {
			return fmt.Errorf("%s: %w", sql, err)
		}
	}
	return nil
}
