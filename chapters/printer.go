package main

import (
	"fmt"
	"io"
	"sync"
	"time"

	"outboxplayground/core/lab"
)

// printer writes what a person in front of a terminal shall read: plain lines,
// without colour, one at a time whoever writes them.
type printer struct {
	mu sync.Mutex
	to io.Writer
}

// line prints one line.
func (p *printer) line(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	fmt.Fprintf(p.to, format+"\n", args...)
}

// warn prints a line that asks for attention.
func (p *printer) warn(format string, args ...any) { p.line("warning: "+format, args...) }

// bus prints a row of the start-up table.
func (p *printer) bus(b lab.BusInfo) {
	note := b.Note
	if b.Fix != "" {
		note += "; to turn it on: " + b.Fix
	}
	p.line("  %-9s %-9s %s", b.Name, b.Mode, note)
}

// brief prints a duration as a person would say it.
func brief(d time.Duration) string {
	if d < time.Second {
		return fmt.Sprintf("%d ms", d.Milliseconds())
	}
	return fmt.Sprintf("%.1f s", d.Seconds())
}
