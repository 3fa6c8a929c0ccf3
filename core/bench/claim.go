package bench

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"outboxplayground/core/outbox"
)

// Growth says how large a table a claim is measured in.
type Growth struct {
	// Sent rows lie below the pending ones. Default: none, and 1,000,000.
	Sent []int
	// Pending rows wait. Default: 1,000 and 100,000.
	Pending []int
	// Loops is how many claims are measured in each cell, after one that is not.
	// Default: 9.
	Loops int
}

// Claimed is what the claims of one cell took.
type Claimed struct {
	Bus     string `json:"bus"`
	Claim   string `json:"claim"` // whose
	Index   string `json:"index"`
	Sent    int    `json:"sent"`
	Pending int    `json:"pending"`
	// P50 and Max are of BEGIN and the claim, until its last row was read.
	P50      float64 `json:"p50_ms"`
	Max      float64 `json:"max_ms"`
	Loops    int     `json:"loops"`
	Rows     int     `json:"rows"` // of a claim
	Postgres string  `json:"postgres"`
}

// Whose claims are measured.
const (
	PlainClaim    = "outbox.Plain"
	ArticlesClaim = "the article's"
)

// claimRows is how many rows the measured claims take: the article's number.
const claimRows = 100

func (g Growth) withDefaults() (Growth, error) {
	if len(g.Sent) == 0 {
		g.Sent = []int{0, 1_000_000}
	}
	if len(g.Pending) == 0 {
		g.Pending = []int{1_000, 100_000}
	}
	if g.Loops == 0 {
		g.Loops = 9
	}
	g.Sent, g.Pending = slices.Sorted(slices.Values(g.Sent)), slices.Sorted(slices.Values(g.Pending))
	switch {
	case g.Sent[0] < 0 || g.Sent[len(g.Sent)-1] > 20_000_000:
		return g, fmt.Errorf("bench: sent rows must be 0 to 20,000,000, not %v", g.Sent)
	case g.Pending[0] < claimRows || g.Pending[len(g.Pending)-1] > 20_000_000:
		return g, fmt.Errorf("bench: pending rows must be %d to 20,000,000, not %v", claimRows, g.Pending)
	case g.Loops < 1 || g.Loops > 1000:
		return g, fmt.Errorf("bench: loops must be 1 to 1,000, not %d", g.Loops)
	}
	return g, nil
}

// The article's claim and its index, which does not give the order that the claim
// asks for: see chapter 3.
const (
	articleIndex = `(status, created_at) WHERE status = 'pending'`
	ourIndex     = `(bus, id) WHERE status = 'pending'`
	articleClaim = `
SELECT id, event_id::text, topic, payload FROM outbox
WHERE status = 'pending' AND bus = $1 AND attempts < 5
ORDER BY id LIMIT 100 FOR UPDATE SKIP LOCKED`
)

// claimer is a way of claiming and the index that it has.
type claimer struct {
	name, index string
	claim       func(ctx context.Context, tx pgx.Tx, busName string) (rows int, err error)
}

func (c claimer) create() string { return `CREATE INDEX outbox_pending ON outbox ` + c.index }

func claimers() []claimer {
	ours := func(q outbox.Queue) func(context.Context, pgx.Tx, string) (int, error) {
		return func(ctx context.Context, tx pgx.Tx, busName string) (int, error) {
			rows, err := q.Claim(ctx, tx, outbox.Want{Bus: busName, Limit: claimRows})
			return len(rows), err
		}
	}
	return []claimer{
		{PlainClaim, ourIndex, ours(outbox.Plain{})},
		{"outbox.Leased", ourIndex, ours(outbox.Leased{})},
		{ArticlesClaim, articleIndex,
			func(ctx context.Context, tx pgx.Tx, busName string) (int, error) {
				tag, err := tx.Exec(ctx, articleClaim, busName)
				return int(tag.RowsAffected()), err
			}},
	}
}

// Claim measures what a claim of 100 rows costs, always with the first pending row
// as its first, in tables of growing size: with the playground's index and claims,
// and with the article's. Every claim is rolled back. got is told each cell.
func Claim(ctx context.Context, c Config, g Growth, tell func(stage string), got func(Claimed) error) (err error) {
	if c, err = c.withDefaults(); err != nil {
		return err
	}
	if g, err = g.withDefaults(); err != nil {
		return err
	}
	s, err := open(ctx, c, level, 2)
	defer func() {
		if closed := s.close(ctx); err == nil {
			err = closed
		}
	}()
	if err != nil {
		return fmt.Errorf("bench: %w", err)
	}
	for _, sent := range g.Sent {
		if err := s.grow(ctx, g, sent, tell, got); err != nil {
			return fmt.Errorf("bench: claim over %d sent rows: %w", sent, err)
		}
	}
	return nil
}

// grow measures over so many sent rows, with more and more pending ones above.
func (s *site) grow(ctx context.Context, g Growth, sent int, tell func(string), got func(Claimed) error) error {
	if err := s.exec(ctx, `TRUNCATE outbox RESTART IDENTITY`); err != nil {
		return err
	}
	if err := s.pile(ctx, 0, sent, "sent", tell); err != nil {
		return err
	}
	have := 0
	for _, pending := range g.Pending {
		if err := s.pile(ctx, sent+have, pending-have, "pending", tell); err != nil {
			return err
		}
		have = pending
		for _, how := range claimers() {
			cell, err := s.cell(ctx, how, g.Loops)
			if err != nil {
				return err
			}
			cell.Sent, cell.Pending = sent, pending
			if err := got(cell); err != nil {
				return err
			}
		}
	}
	return nil
}

// cell measures one way of claiming, with its index alone.
func (s *site) cell(ctx context.Context, how claimer, loops int) (c Claimed, err error) {
	c = Claimed{Bus: s.Bus, Claim: how.name, Index: how.index, Loops: loops, Rows: claimRows}
	if c.Postgres, err = s.settings(ctx); err != nil {
		return c, err
	}
	if err := s.exec(ctx, `DROP INDEX outbox_pending`, how.create(), `ANALYZE outbox`); err != nil {
		return c, err
	}
	var took []float64
	for i := range loops + 1 {
		t, err := s.claimOnce(ctx, how)
		if err != nil {
			return c, err
		}
		if i > 0 {
			took = append(took, t)
		}
	}
	slices.Sort(took)
	c.P50, c.Max = quantile(took, .5), quantile(took, 1)
	return c, nil
}

func (s *site) claimOnce(ctx context.Context, how claimer) (took float64, err error) {
	begun := time.Now()
	tx, err := s.pool.Begin(ctx)
	if err != nil {
		return 0, err
	}
	defer tx.Rollback(ctx)
	rows, err := how.claim(ctx, tx, s.Bus)
	took = ms(time.Since(begun))
	if err == nil && rows != claimRows {
		err = fmt.Errorf("%s claim took %d rows of %d", how.name, rows, claimRows)
	}
	return took, err
}
