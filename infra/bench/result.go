package main

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
)

// result is what one relay did on one broker.
type result struct {
	Broker          string  `json:"broker"`
	Relay           string  `json:"relay"`
	Settings        string  `json:"settings"`
	EventsPerSecond float64 `json:"events_per_s"` // the median of the rounds
	Slowest         float64 `json:"slowest"`
	Fastest         float64 `json:"fastest"`
	// Ours is our rate divided by this one's.
	Ours       float64 `json:"ours_is_times"`
	Rows       int     `json:"rows"`
	Rounds     int     `json:"rounds"`
	Lost       int     `json:"lost"` // over all rounds, counted at the broker
	Duplicated int     `json:"duplicated"`

	rates []float64
}

func (r *result) add(perSecond float64, lost, duplicated int) {
	r.rates = append(r.rates, perSecond)
	r.Lost, r.Duplicated = r.Lost+lost, r.Duplicated+duplicated
}

// finish computes the figures; ours must be finished first, or be r itself.
func (r *result) finish(ours *result) {
	slices.Sort(r.rates)
	r.Slowest, r.Fastest = r.rates[0], r.rates[len(r.rates)-1]
	r.EventsPerSecond = r.rates[len(r.rates)/2]
	r.Ours = ours.EventsPerSecond / r.EventsPerSecond
}

func show(out io.Writer, results []result, asJSON bool) error {
	for i, r := range results {
		if asJSON {
			if err := json.NewEncoder(out).Encode(r); err != nil {
				return err
			}
			continue
		}
		if i == 0 {
			fmt.Fprintf(out, "\n%s, %d events, median of %d rounds (slowest to fastest)\n", r.Broker, r.Rows, r.Rounds)
		}
		_, err := fmt.Fprintf(out, "%-32s %8.0f events/s (%.0f to %.0f)  ours is %.2f times it  %d lost, %d duplicated  [%s]\n",
			r.Relay, r.EventsPerSecond, r.Slowest, r.Fastest, r.Ours, r.Lost, r.Duplicated, r.Settings)
		if err != nil {
			return err
		}
	}
	return nil
}
