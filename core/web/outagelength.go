package web

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"outboxplayground/core/lab"
)

// OutageChoices are the lengths that the form offers, the link's own one among them.
func (e *experiment) OutageChoices() []string {
	list := []time.Duration{10 * time.Second, 30 * time.Second, time.Minute, 2 * time.Minute}
	if e.Outage > 0 && !slices.Contains(list, e.Outage) {
		list = append(list, e.Outage)
		slices.Sort(list)
	}
	texts := make([]string, len(list))
	for i, d := range list {
		texts[i] = outageText(d)
	}
	return texts
}

// OutageText is the length as a call takes it, "" for the shortest.
func (e *experiment) OutageText() string { return outageText(e.Outage) }

// outageText writes 1m where Go writes 1m0s, and nothing for no time.
func outageText(d time.Duration) string {
	if d == 0 {
		return ""
	}
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	return text
}

// Lasts tells whether the chosen fault goes on for as long as one asks for.
func (e *experiment) Lasts() bool { return lasts(e.Fault) }

// Lasts tells whether a fault goes on for as long as one asks for.
func (f faultChoice) Lasts() bool { return lasts(f.Fault) }

// outageFault is the one whose length a lab.Spec can name.
const outageFault = "broker-down"

func lasts(f lab.Fault) bool { return f.Name == outageFault }

// outageOf is how long an outage is to last at least; 0 where nothing is said.
func outageOf(in input) (time.Duration, *problem) {
	text, given := in.str("outage")
	if !given {
		return 0, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 || d > lab.MaxOutage {
		return 0, invalid(fieldError{"outage", fmt.Sprintf("must be a duration like 30s, at most %v", lab.MaxOutage)})
	}
	return d, nil
}
