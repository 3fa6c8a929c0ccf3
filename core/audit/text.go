package audit

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
)

// symbol never stands alone: a word is always beside it.
func symbol(ok bool) string {
	if ok {
		return "✓"
	}
	return "✗"
}

// Words says the verdict in symbols and words.
func (t *Trail) Words() string {
	v, words := t.Verdict, []string{}
	add := func(n int, word string) {
		if n > 0 {
			words = append(words, word)
		}
	}
	add(v.Delivered, "✓ delivered")
	add(v.Lost, "✗ lost")
	add(v.Duplicated, "⧉ duplicated")
	add(v.Phantom, "⚠ phantom")
	add(v.Stuck, "■ stuck")
	add(v.Pending, "… pending")
	return strings.Join(words, ", ")
}

// WriteText writes the trail as aligned plain text. Text from outside is quoted, so
// that it cannot steer a terminal.
func (t *Trail) WriteText(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "event\t%s\n", t.EventID)
	fmt.Fprintf(w, "chapter\t%d\n", t.Chapter)
	fmt.Fprintf(w, "bus\t%s\n", t.Bus)
	fmt.Fprintf(w, "verdict\t%s (valid: %s)\n", t.Words(), t.Valid)
	fmt.Fprintf(w, "why\t%s\n\n", t.Why)
	t.writeRows(w)
	fmt.Fprintf(w, "\nas of\t%s\n", stamp(&t.AsOf))
	return w.Flush()
}

func (t *Trail) writeRows(w io.Writer) {
	if o := t.Order; o != nil {
		fmt.Fprintf(w, "orders\t%s row\t%s\tuser %q, items %q\n", symbol(true), stamp(&o.CreatedAt), o.UserID, o.Items)
	} else {
		fmt.Fprintf(w, "orders\t%s none\n", symbol(false))
	}
	if d := t.InDoubt; d != nil {
		fmt.Fprintf(w, "prepared\t… waits\t%s\t%s\n", stamp(&d.Since), d.GID)
	}
	if o := t.Outbox; o != nil {
		at := o.CreatedAt
		if o.SentAt != nil {
			at = o.SentAt
		}
		fmt.Fprintf(w, "outbox\t%s %s\t%s\trow %d, failed attempts %d%s\n",
			mark(o.Status), o.Status, stamp(at), o.ID, o.Attempts, lastError(o.LastError))
	}
	for _, p := range t.Processed {
		fmt.Fprintf(w, "processed\t%s row\t%s\tby %s from %s, deliveries %d\n",
			symbol(true), stamp(&p.At), p.Consumer, p.Bus, p.Deliveries)
	}
	for _, d := range t.DeadLetters {
		fmt.Fprintf(w, "dead letter\t%s %s\t%s\tletter %d, attempts %d, reason %q\n",
			letterMark(d.Status), d.Status, stamp(&d.FailedAt), d.ID, d.Attempts, d.Reason)
	}
	for i, e := range t.Emails {
		s := symbol(true)
		if i > 0 {
			s = "⧉"
		}
		fmt.Fprintf(w, "email\t%s sent\t%s\tto %q\n", s, stamp(&e.SentAt), e.Recipient)
	}
	if len(t.Emails) == 0 {
		fmt.Fprintf(w, "email\t%s none\n", symbol(false))
	}
}

// mark is the symbol of an outbox status.
func mark(status string) string {
	switch status {
	case "sent":
		return "✓"
	case "pending":
		return "…"
	}
	return "✗"
}

// letterMark is the symbol of a dead letter's state.
func letterMark(status string) string {
	switch status {
	case "replayed":
		return "✓"
	case "requested":
		return "…"
	}
	return "✗"
}

func lastError(e *string) string {
	if e == nil {
		return ""
	}
	return fmt.Sprintf(", last error %q", *e)
}

func stamp(at *time.Time) string {
	if at == nil {
		return "-"
	}
	return at.UTC().Format("2006-01-02 15:04:05.000")
}
