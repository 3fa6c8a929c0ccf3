package outbox

import (
	"errors"
	"strings"
	"testing"

	"outboxplayground/core/checkpoint"
	"outboxplayground/core/pg/pgtest"
	"outboxplayground/core/shop"
	"outboxplayground/core/shop/shoptest"
)

var errBusiness = errors.New("simulated business failure")

func TestPlaceOrderKeepsBothRowsOrNeither(t *testing.T) {
	pool, _ := pgtest.Schema(t, 3)
	count := func(table, id string) int {
		return pgtest.Count(t, pool,
			`SELECT count(*) FROM `+table+` WHERE event_id = $1`, id)
	}
	order := shoptest.Order("redis")
	if err := (&Outbox{DB: pool}).PlaceOrder(t.Context(), order); err != nil {
		t.Fatal(err)
	}
	o, e := count("orders", order.EventID), count("outbox", order.EventID)
	if o != 1 || e != 1 {
		t.Errorf("committed: %d orders, %d outbox rows, want 1 and 1", o, e)
	}
	refused := shoptest.Order("redis")
	steps := checkpoint.Fail(checkpoint.BeforeCommit, refused.EventID, errBusiness)
	err := (&Outbox{DB: pool, Steps: steps}).PlaceOrder(t.Context(), refused)
	if !errors.Is(err, errBusiness) {
		t.Errorf("PlaceOrder answered %v, want the business failure", err)
	}
	o, e = count("orders", refused.EventID), count("outbox", refused.EventID)
	if o != 0 || e != 0 {
		t.Errorf("rolled back: %d orders, %d outbox rows, want none", o, e)
	}
}

// Whatever the items hold, the payload is an object whose strings are the
// customer's, and not a string that holds an object.
func TestPayloadIsAnObjectWithItsDigits(t *testing.T) {
	pool, _ := pgtest.Schema(t, 3)
	order := shoptest.Order("nats")
	order.Items = []string{"1000000000000001", "雨傘", `a"b\c`, "<&>"}
	if err := (&Outbox{DB: pool}).PlaceOrder(t.Context(), order); err != nil {
		t.Fatal(err)
	}
	n := pgtest.Count(t, pool, `SELECT count(*) FROM outbox WHERE event_id = $1
		AND jsonb_typeof(payload) = 'object'
		AND payload->'items' =
			jsonb_build_array('1000000000000001', '雨傘', E'a"b\\c', '<&>')`,
		order.EventID)
	if n != 1 {
		t.Error("the payload is not the order's own values in an object")
	}
}

func TestSecondOrderWithTheSameEventIDIsRefused(t *testing.T) {
	pool, _ := pgtest.Schema(t, 3)
	order := shoptest.Order("nats")
	p := &Outbox{DB: pool}
	if err := p.PlaceOrder(t.Context(), order); err != nil {
		t.Fatal(err)
	}
	if err := p.PlaceOrder(t.Context(), order); !errors.Is(err, shop.ErrDuplicate) {
		t.Errorf("second order: %v, want ErrDuplicate", err)
	}
	if n := pgtest.Count(t, pool, `SELECT count(*) FROM outbox`); n != 1 {
		t.Errorf("%d outbox rows, want 1", n)
	}
}

// The claim must find the pending rows through their index, however many are sent.
func TestClaimUsesThePartialIndex(t *testing.T) {
	pool, _ := pgtest.Schema(t, 3)
	fill := `INSERT INTO outbox (event_id, bus, payload, status, sent_at)
		SELECT gen_random_uuid(), 'nats', '{}',
			CASE WHEN i % 100 = 0 THEN 'pending' ELSE 'sent' END,
			CASE WHEN i % 100 = 0 THEN NULL ELSE now() END
		FROM generate_series(1, 50000) i`
	for _, sql := range []string{fill, `ANALYZE outbox`} {
		if _, err := pool.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	var plan strings.Builder
	rows, err := pool.Query(t.Context(), `EXPLAIN `+claimRows, "nats")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var line string
		if err := rows.Scan(&line); err != nil {
			t.Fatal(err)
		}
		plan.WriteString(line + "\n")
	}
	if p := plan.String(); !strings.Contains(p, "outbox_pending") ||
		strings.Contains(p, "Sort") {
		t.Errorf("the claim sorts or misses its index:\n%s", p)
	}
}
