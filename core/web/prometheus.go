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
	paused.WithLabelValues().Set(oneIf(f.Paused))
	registry := prometheus.NewRegistry()
	registry.MustRegister(rows, lag, paused)
	if f.Slots != nil {
		retained := gauge("outbox_slot_retained_bytes", "How much of the log the server keeps for a slot.", "bus")
		active := gauge("outbox_slot_active", "1 while somebody reads from the slot.", "bus")
		alarm := gauge("outbox_slot_alarm", "1 when a person has to look at the slot.", "bus")
		for _, s := range f.Slots {
			retained.WithLabelValues(s.Bus).Set(float64(s.RetainedBytes))
			active.WithLabelValues(s.Bus).Set(oneIf(s.Active))
			alarm.WithLabelValues(s.Bus).Set(oneIf(s.Alarm != ""))
		}
		registry.MustRegister(retained, active, alarm)
	}
	if f.Listeners != nil {
		listeners := gauge("outbox_listeners", "Sessions that hear what the trigger notifies; 0: the bus is polled.", "bus")
		for name, n := range f.Listeners {
			listeners.WithLabelValues(name).Set(float64(n))
		}
		registry.MustRegister(listeners)
	}
	if i := f.inbox; i != nil {
		letters := gauge("inbox_dead_letters", "Messages that the listener has given up.", "status")
		letters.WithLabelValues(inbox.Dead).Set(float64(i.Dead))
		letters.WithLabelValues(inbox.Requested).Set(float64(i.Requested))
		letters.WithLabelValues(inbox.Replayed).Set(float64(i.Replayed))
		registry.MustRegister(letters)
	}
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{EnableOpenMetrics: true}).ServeHTTP(c.Writer, c.Request)
}

func oneIf(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}
