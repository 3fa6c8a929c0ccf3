package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	measure "outboxplayground/core/bench"
	"outboxplayground/infra/servers/servertest"
)

// The fields that others read, with a value in each, and the same as text.
func TestBenchDrainReports(t *testing.T) {
	servertest.URL(t, "postgres")
	var out bytes.Buffer
	o := benchOptions{Config: measure.Config{Bus: inMemory, Rows: 500, Batch: 100}, json: true}
	if err := benchDrain(t.Context(), &out, o); err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(out.Bytes(), &got); err != nil {
		t.Fatalf("%v in %s", err, out.String())
	}
	for name, want := range map[string]any{
		"bus": inMemory, "mode": "memory", "rows": 500.0, "batch": 100.0, "workers": 1.0, "payload_bytes": 200.0,
		"lost": 0.0, "duplicated": 0.0, "stuck": 0.0,
	} {
		if got[name] != want {
			t.Errorf("%s is %v, want %v", name, got[name], want)
		}
	}
	for _, name := range []string{"events_per_s", "raw_publish_per_s", "reference_per_s"} {
		if rate, ok := got[name].(float64); !ok || rate <= 0 {
			t.Errorf("%s is %v, want a rate", name, got[name])
		}
	}
	if text, _ := got["durability"].(string); !strings.Contains(text, "synchronous_commit") {
		t.Errorf("durability is %q, want the database's settings in it", text)
	}
	out.Reset()
	o.json = false
	if err := benchDrain(t.Context(), &out, o); err != nil || !strings.Contains(out.String(), "0 lost, 0 duplicated, 0 stuck") {
		t.Errorf("%v, as text:\n%s", err, out.String())
	}
}

func TestBenchRefusesNonsense(t *testing.T) {
	for _, args := range [][]string{{"bench"}, {"bench", "nothing"}, {"bench", "drain", "--bus", "none"}} {
		cmd := root()
		cmd.SetArgs(args)
		if err := cmd.ExecuteContext(t.Context()); err == nil {
			t.Errorf("%v: no error", args)
		}
	}
}
