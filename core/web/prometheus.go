package web

import (
	"strconv"

	"github.com/gin-gonic/gin"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"outboxplayground/core/inbox"
	"outboxplayground/core/lab"
)

// prometheus answers a scrape. The figures are read for each scrape, so a registry
// of its own holds them: nothing can be stale, and nothing is global.
func (s *server) prometheus(c *gin.Context, ch lab.Chapter, f outboxFigures) {
	labels := prometheus.Labels{"chapter": strconv.Itoa(ch.Number)}
	gauge := func(name, help string, more ...string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help, ConstLabels: labels}, more)
	}
	rows := gauge("outbox_rows", "Rows of the outbox.", "bus", "status")
	lag := gauge("outbox_oldest_pending_lag_seconds",
		"How long the oldest pending row has been waiting; absent where none is pending.", "bus")
	paused := gauge("outbox_paused", "1 while the worker may not claim rows.")
	for name, n := range f.ByBus {
		rows.WithLabelValues(name, "pending").Set(float64(n.Pending))
		rows.WithLabelValues(name, "failed").Set(float64(n.Failed))
		rows.WithLabelValues(name, "sent").Set(float64(n.Sent))
		if n.OldestPendingLagMS != nil {
			lag.WithLabelValues(name).Set(float64(*n.OldestPendingLagMS) / 1000)
		}
	}
	paused.WithLabelValues().Set(0)
	if f.Paused {
		paused.WithLabelValues().Set(1)
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(rows, lag, paused)
	if i := f.inbox; i != nil {
		letters := gauge("inbox_dead_letters", "Messages that the listener has given up.", "status")
		letters.WithLabelValues(inbox.Dead).Set(float64(i.Dead))
		letters.WithLabelValues(inbox.Requested).Set(float64(i.Requested))
		letters.WithLabelValues(inbox.Replayed).Set(float64(i.Replayed))
		registry.MustRegister(letters)
	}
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{EnableOpenMetrics: true}).ServeHTTP(c.Writer, c.Request)
}
