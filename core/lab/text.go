package lab

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"outboxplayground/core/audit"
)

// WriteText writes the verdict for a person: what was measured, what that breaks,
// and one event that shows it; its timeline too where the trails are there.
func (res Result) WriteText(out io.Writer) error {
	r := res.Report
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "run\t%s · chapter %d %s · %s (%s)\n", r.ID, r.Chapter, r.Variant, r.Bus, strings.TrimSpace(r.Mode+" "+r.Version))
	for _, f := range r.Faults {
		fmt.Fprintf(w, "fault\t%s\n", f.words())
	}
	if figure, p, measured, ok := r.Prediction(); ok {
		fmt.Fprintf(w, "predicted\t%d %s%s\n", p, figure, comparedWith(measured, p))
	}
	fmt.Fprintf(w, "measured\t%s\n", measuredWords(r))
	fmt.Fprintf(w, "valid\t%s: %s\n", r.Valid, r.Why)
	if len(r.Not) > 0 {
		fmt.Fprintf(w, "broken\t%s", strings.Join(r.Not, ", "))
		if len(r.AlsoNot) > 0 {
			fmt.Fprintf(w, "; hence also %s", strings.Join(r.AlsoNot, ", "))
		}
		fmt.Fprintln(w)
	}
	fmt.Fprintf(w, "declared\t%s%s\n", r.Declared, r.agreement())
	if err := w.Flush(); err != nil || r.Smallest == nil {
		return err
	}
	fmt.Fprintf(out, "\nthe smallest counterexample: order %d is %s\n  %s\n\n", r.Smallest.Order, r.Smallest.What, r.Smallest.Why)
	if r.Smallest.Order > len(res.Trails) { // a report without its trails
		_, err := fmt.Fprintf(out, "event %s: %s has its trail\n", r.Smallest.EventID, r.Smallest.Trail)
		return err
	}
	return res.Trails[r.Smallest.Order-1].WriteTimeline(out)
}

func (r Report) agreement() string {
	switch diff := Agrees(r.Declared, r); {
	case r.Declared == "" || r.Declared == "n/a" || !r.Standard:
		return ""
	case diff == "" && r.Valid == audit.False:
		return ", as measured: this is the lesson, not a bug"
	case diff == "":
		return ", as measured"
	default:
		return ", which is not what was measured: " + diff
	}
}

func (f FaultReport) words() string {
	if f.Name == "none" {
		return "none"
	}
	hits := "1 hit"
	if f.Hits != 1 {
		hits = fmt.Sprintf("%d hits", f.Hits)
	}
	where := fmt.Sprintf("orders %d to %d", f.FromOrder, f.ToOrder)
	switch {
	case f.FromOrder == f.ToOrder:
		where = fmt.Sprintf("order %d", f.FromOrder)
	case f.FromOrder > f.ToOrder:
		where = fmt.Sprintf("from order %d on, after the last", f.FromOrder)
	}
	text := f.Name + ", " + where + ", " + hits
	if f.Network > 0 {
		text += fmt.Sprintf(" (on the network: %d in %.0f ms)", f.Network, f.Ms)
	}
	return text
}

// comparedWith says whether a prediction has come true.
func comparedWith(measured, predicted int) string {
	switch {
	case measured == predicted:
		return ": as measured"
	case measured < predicted:
		return fmt.Sprintf(": %d too many", predicted-measured)
	default:
		return fmt.Sprintf(": %d too few", measured-predicted)
	}
}

// measuredWords names every count that is not zero, with its symbol.
func measuredWords(r Report) string {
	v := r.Measured
	words := []string{fmt.Sprintf("%d orders", v.Orders), fmt.Sprintf("✓ %d delivered", v.Delivered)}
	for _, c := range []struct {
		n    int
		word string
	}{{v.Lost, "✗ %d lost"}, {v.Duplicated, "⧉ %d duplicated"}, {v.Phantom, "⚠ %d phantom"},
		{v.Reordered, "⇅ %d reordered"}, {v.Stuck, "■ %d stuck"}, {v.Refused, "− %d refused"},
		{v.Pending, "… %d pending"}, {r.Late, "%d of them late"}} {
		if c.n > 0 {
			words = append(words, fmt.Sprintf(c.word, c.n))
		}
	}
	return strings.Join(words, "   ")
}

// WriteTimeline writes what happened to one event, a line a step; long silences are
// named, not drawn.
func (e EventTrail) WriteTimeline(out io.Writer) error {
	lines := slices.Clone(e.Timeline)
	for _, m := range e.Trail.Emails {
		lines = append(lines, Line{At: m.SentAt, Label: "emails", Step: "row written"})
	}
	slices.SortStableFunc(lines, func(a, b Line) int { return a.At.Compare(b.At) })
	var table bytes.Buffer
	w := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	fmt.Fprintf(out, "event %s\n", e.Trail.EventID)
	var first, last time.Time
	for _, l := range lines {
		if first.IsZero() {
			first, last = l.At, l.At
		}
		if gap := l.At.Sub(last); gap > 100*time.Millisecond {
			fmt.Fprintf(w, "  ⋯ %d ms ⋯\t\t\t\n", gap.Milliseconds())
		}
		last = l.At
		fmt.Fprintf(w, "  t+%.1f ms\t%s\t%s\t%s\n", float64(l.At.Sub(first).Microseconds())/1000, l.Label, l.Step, l.Text)
	}
	fmt.Fprintf(w, "  in the end\ttables\t%s\t%s\n", outcome(e.Trail), e.Trail.Why)
	_ = w.Flush() // into memory
	return writeTrimmed(out, table.String())
}

// writeTrimmed leaves out the blanks that a table has at the end of its lines.
func writeTrimmed(out io.Writer, table string) error {
	for line := range strings.Lines(table) {
		if _, err := fmt.Fprintln(out, strings.TrimRight(line, " \n")); err != nil {
			return err
		}
	}
	return nil
}

func outcome(t audit.Trail) string {
	if words := t.Words(); words != "" {
		return words
	}
	return "nothing was kept"
}
