package wake

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"outboxplayground/core/outbox"
	"outboxplayground/core/pg"
	"outboxplayground/core/pg/pgtest"
	"outboxplayground/core/shop/shoptest"
)

// clients place orders side by side, each on a connection of its own.
const clients = 16

// What the notification costs those who commit: the same orders with the trigger and
// without, while one session listens. Nothing is relayed.
func BenchmarkNotify(b *testing.B) {
	for _, c := range []struct{ name, set string }{
		{"silent", `ALTER TABLE outbox DISABLE TRIGGER outbox_written`},
		{"notified", `ALTER TABLE outbox ENABLE TRIGGER outbox_written`},
	} {
		b.Run(c.name, func(b *testing.B) {
			small, schema := pgtest.Schema(b, 7)
			if _, err := small.Exec(b.Context(), c.set); err != nil {
				b.Fatal(err)
			}
			drainNotifications(b, small.Config().ConnConfig, schema)
			pool, err := pg.Open(small.Config().ConnString(), schema,
				pg.Options{MaxConns: clients})
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(pool.Close)
			p := &Outbox{DB: pool}
			// Times GOMAXPROCS: always more than there are connections.
			b.SetParallelism(clients)
			began := time.Now()
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if err := p.PlaceOrder(context.Background(),
						shoptest.Order("redis")); err != nil {
						b.Error(err)
						return
					}
				}
			})
			b.ReportMetric(float64(b.N)/time.Since(began).Seconds(), "orders/s")
		})
	}
}

// drainNotifications is a session that listens and does nothing about what it hears.
func drainNotifications(b *testing.B, cfg *pgx.ConnConfig, schema string) {
	b.Helper()
	ctx, stop := context.WithCancel(context.Background())
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		b.Fatal(err)
	}
	if _, err := conn.Exec(ctx,
		`LISTEN `+pgx.Identifier{outbox.Channel(schema)}.Sanitize()); err != nil {
		b.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			if _, err := conn.WaitForNotification(ctx); err != nil {
				return
			}
		}
	}()
	b.Cleanup(func() { stop(); <-done; _ = conn.Close(context.Background()) })
}
