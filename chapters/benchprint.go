package main

import (
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"

	measure "outboxplayground/core/bench"
)

func (r benchResult) write(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "bus\t%s (%s %s)\n", r.Bus, r.Mode, r.Version)
	fmt.Fprintf(w, "relay\t%.0f events/s\n", r.EventsPerSecond)
	fmt.Fprintf(w, "bare loop\t%.0f events/s\tthe relay is %.2f of it\n", r.ReferencePerSecond, r.EventsPerSecond/r.ReferencePerSecond)
	fmt.Fprintf(w, "bus alone\t%.0f events/s\tthe relay is %.2f of it\n", r.RawPerSecond, r.EventsPerSecond/r.RawPerSecond)
	fmt.Fprintf(w, "row by row\t%.0f events/s\tthe relay is %.1f times it\n", r.RowByRowPerSecond, r.EventsPerSecond/r.RowByRowPerSecond)
	if r.LogPerSecond > 0 {
		fmt.Fprintf(w, "log\t%.0f events/s\tread by chapter 8's relay: %.1f times the relay above\n", r.LogPerSecond, r.LogPerSecond/r.EventsPerSecond)
	}
	fmt.Fprintf(w, "memory\t%.0f objects allocated for each event, by the relay and the driver\n", r.AllocsPerEvent)
	fmt.Fprintf(w, "settings\t%d rows, batch %d, %d workers, %d bytes\n", r.Rows, r.Batch, r.Workers, r.PayloadBytes)
	fmt.Fprintf(w, "durability\t%s\n", r.Durability)
	fmt.Fprintf(w, "of these\t%d lost, %d duplicated, %d stuck\n", r.Lost, r.Duplicated, r.Stuck)
	return w.Flush()
}

// benchLines prints measurements as they come: JSON objects, or lines under a
// heading, wide enough to be read while the next one is under way.
type benchLines struct {
	out     io.Writer
	json    bool
	heading string
	begun   bool
}

// line prints one measurement, as it is or as a line.
func (l *benchLines) line(v any, format string, args ...any) error {
	if l.json {
		return json.NewEncoder(l.out).Encode(v)
	}
	if !l.begun {
		l.begun = true
		if _, err := fmt.Fprintln(l.out, l.heading); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(l.out, format+"\n", args...)
	return err
}

func (l *benchLines) delayed(d delayedResult) error {
	return l.line(d, "%-11s %6d/s %9.2f %9.2f %9.2f %16.1f   %d lost, %d duplicated, %d stuck of %d",
		d.Waker, d.Rate, d.P50, d.P99, d.Max, d.AtRest, d.Lost, d.Duplicated, d.Stuck, d.Rows)
}

func (l *benchLines) claimed(c measure.Claimed) error {
	return l.line(c, "%10d %10d   %-14s %9.2f %9.2f   %s", c.Sent, c.Pending, c.Claim, c.P50, c.Max, c.Index)
}

func (l *benchLines) window(w measure.Window) error {
	return l.line(w, "%-7s %-7s %6.1f s %10.0f %10.2f %12d", w.Claim, w.Phase, w.Second, w.EventsPerSecond, w.OfBefore, w.Dead)
}

func (l *benchLines) produced(p measure.Produced) error {
	return l.line(p, "%7d  %-34s %9.0f %8.2f %9.2f %9.2f %12.2f", p.Clients, p.Form, p.OrdersPerSecond, p.OfOrdersOnly, p.P50, p.P99, p.AddedP50)
}

// durability says what an acknowledgement was worth in this run.
func (o *benchOptions) durability(postgres string) string {
	broker := map[string]string{
		"rabbitmq": "durable queue, persistent, mandatory, publisher confirms",
		"kafka":    "acks=all",
		"nats":     "JetStream file storage, PubAck",
		"redis":    "XADD reply, the server's own append-only setting",
		inMemory:   "none: the broker is this process",
	}[o.Bus]
	if o.classic {
		broker = "classic queue: " + broker
	}
	return broker + "; PostgreSQL " + postgres
}
