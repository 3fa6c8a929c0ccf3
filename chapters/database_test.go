package main

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"outboxplayground/core/bus"
	"outboxplayground/core/lab"
	"outboxplayground/core/pg"
	"outboxplayground/core/pg/pgtest"
	"outboxplayground/core/shop"
	"outboxplayground/core/shop/shoptest"
	"outboxplayground/infra/servers/servertest"
)

// everyVariant runs a subtest for each variant of each chapter.
func everyVariant(t *testing.T, test func(t *testing.T, c lab.Chapter, v lab.Variant)) {
	for _, c := range contents() {
		for _, v := range c.Variants {
			t.Run(c.Slug+"/"+v.Name, func(t *testing.T) { test(t, c, v) })
		}
	}
}

// partsOn are the parts of a chapter whose database is pool and whose bus is a
// double that accepts everything.
func partsOn(pool *pgxpool.Pool) lab.Deps {
	schema := strings.Trim(pool.Config().ConnConfig.RuntimeParams["search_path"], `"`)
	return lab.Deps{DB: pool, Bus: &shoptest.Bus{}, BusName: "nats", Schema: schema, Log: slog.New(slog.DiscardHandler)}
}

// A URL may choose how pgx speaks to the server, for a pooler in between: what an
// order leaves is the same to the letter, and poison is kept.
func TestOrdersOverEveryProtocol(t *testing.T) {
	everyVariant(t, func(t *testing.T, c lab.Chapter, v lab.Variant) {
		left := map[string]string{}
		for _, mode := range []string{"cache_statement", "describe_exec", "exec", "simple_protocol"} {
			_, schema := pgtest.Schema(t, c.Number)
			pool, err := pg.Open(withParameter(servertest.URL(t, "postgres"), "default_query_exec_mode", mode), schema, pg.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer pool.Close()
			order := shop.Order{EventID: "9b2200aa-0000-4000-8000-000000000001", UserID: `雨 "u" \ 1`, Items: []string{`a'b`, "1000000000000001"}, Bus: "nats"}
			if err := v.Producer(partsOn(pool)).PlaceOrder(t.Context(), order); err != nil {
				t.Fatalf("%s: %v", mode, err)
			}
			if err := v.Consumer(partsOn(pool))(t.Context(), shop.OrderPlaced(order, c.Topic)); err != nil {
				t.Fatalf("%s: the listener: %v", mode, err)
			}
			if c.Number >= 6 {
				keepsPoison(t, v.Consumer(partsOn(pool)), pool, shop.OrderPlaced(order, c.Topic))
			}
			sql := `SELECT o.items::text || (SELECT string_agg(recipient, ' ') FROM emails) FROM orders o`
			if c.Outbox {
				sql = `SELECT o.items::text || coalesce(x.payload::text, 'no row') || (SELECT string_agg(recipient, ' ') FROM emails)
					FROM orders o LEFT JOIN outbox x USING (event_id)`
			}
			var rows string
			if err := pool.QueryRow(t.Context(), sql).Scan(&rows); err != nil {
				t.Fatalf("%s: %v", mode, err)
			}
			left[rows] += mode + " "
		}
		if len(left) != 1 {
			t.Errorf("different rows: %v", left)
		}
	})
}

// keepsPoison delivers what no listener can read: from chapter 6 on it becomes a
// dead letter with its headers.
func keepsPoison(t *testing.T, listener bus.Handler, pool *pgxpool.Pool, m bus.Message) {
	t.Helper()
	m.ID, m.Payload, m.Headers = uuid.NewString(), []byte("{"), map[string]string{"trace": `雨"'`}
	if err := listener(t.Context(), m); err != nil {
		t.Errorf("poison: %v", err)
	}
	if n := pgtest.Count(t, pool, `SELECT count(*) FROM dead_letters WHERE event_id::text = $1 AND headers->>'trace' = $2`, m.ID, m.Headers["trace"]); n != 1 {
		t.Errorf("%d dead letters of one message", n)
	}
}

func withParameter(url, name, value string) string {
	switch {
	case !strings.Contains(url, "://"):
		return url + " " + name + "=" + value
	case strings.Contains(url, "?"):
		return url + "&" + name + "=" + value
	}
	return url + "?" + name + "=" + value
}

// Nothing that holds a connection asks for a second one: as many orders as you like
// get through a pool of a single one, beside the listener.
func TestOneConnectionIsEnough(t *testing.T) {
	everyVariant(t, func(t *testing.T, c lab.Chapter, v lab.Variant) {
		_, schema := pgtest.Schema(t, c.Number)
		pool, err := pg.Open(servertest.URL(t, "postgres"), schema, pg.Options{MaxConns: 1})
		if err != nil {
			t.Fatal(err)
		}
		defer pool.Close()
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		var orders sync.WaitGroup
		for i := range 4 {
			orders.Go(func() {
				order := shoptest.Order("nats")
				order.UserID = fmt.Sprint("customer-", i) // orders of one customer wait for each other in chapter 9
				if err := v.Producer(partsOn(pool)).PlaceOrder(ctx, order); err != nil {
					t.Error(err)
				}
				if err := v.Consumer(partsOn(pool))(ctx, shop.OrderPlaced(order, c.Topic)); err != nil {
					t.Error(err)
				}
			})
		}
		orders.Wait()
		if n := pgtest.Count(t, pool, `SELECT count(*) FROM orders`); n != 4 {
			t.Errorf("%d orders, want 4", n)
		}
	})
}
