package main

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"

	"outboxplayground/infra/servers"
	"outboxplayground/infra/servers/servertest"
)

// All three relays, on Redis alone because it is the quickest to start: every event
// arrives, and the table has a line for each.
func TestCompare(t *testing.T) {
	for _, name := range []string{"postgres", "redis"} {
		t.Setenv(servers.Variable(name), servertest.Start(t, name, servers.Options{NoSync: true}).URL)
	}
	o := options{rows: 60, rounds: 2, fsync: "everysec"}
	k := kinds()[3]
	results, err := onBroker(t.Context(), k, o)
	if err != nil {
		t.Fatal(err)
	}
	if len(results) != 3 {
		t.Fatalf("%d results, want 3", len(results))
	}
	for _, r := range results {
		if r.Lost != 0 || r.Duplicated != 0 || r.Slowest <= 0 || r.Slowest > r.EventsPerSecond || r.EventsPerSecond > r.Fastest || r.Ours <= 0 || r.Rounds != 2 {
			t.Errorf("%+v", r)
		}
	}
	if results[0].Ours != 1 || results[0].Relay != "core/outbox" {
		t.Errorf("%+v, want ours to be once itself", results[0])
	}
	var text, lines bytes.Buffer
	if err := show(&text, results, false); err != nil || strings.Count(text.String(), "0 lost, 0 duplicated") != 3 {
		t.Errorf("%v, as text:\n%s", err, text.String())
	}
	if err := show(&lines, results, true); err != nil || strings.Count(lines.String(), "\n") != 3 || !json.Valid(bytes.Split(lines.Bytes(), []byte("\n"))[0]) {
		t.Errorf("%v, as JSON:\n%s", err, lines.String())
	}
}

// What is missing, and what is there twice, is counted at the broker.
func TestTallyFindsOutWhatIsWrong(t *testing.T) {
	held := []int{0, 1, 1, 3, 3, 3} // of 0 to 4
	to := &target{read: func(_ context.Context, got func([]byte)) error {
		for _, n := range held {
			got(payload(n))
		}
		got([]byte("not ours"))
		return nil
	}}
	lost, duplicated, err := to.tally(t.Context(), 5)
	if err != nil || lost != 2 || duplicated != 4 {
		t.Errorf("%d lost, %d duplicated, %v; want 2 lost, 4 duplicated or foreign", lost, duplicated, err)
	}
}

func TestPayload(t *testing.T) {
	for _, n := range []int{0, 7, 999_999} {
		var e event
		if raw := payload(n); len(raw) != payloadBytes || json.Unmarshal(raw, &e) != nil || e.Number != n {
			t.Errorf("%d: %d bytes, %+v", n, len(raw), e)
		}
	}
}

func TestNonsenseIsRefused(t *testing.T) {
	for _, o := range []options{{}, {rows: 1}, {rows: 1, rounds: 1, only: "nothing"}} {
		if _, err := compare(t.Context(), o); err == nil {
			t.Errorf("%+v: no error", o)
		}
	}
}
