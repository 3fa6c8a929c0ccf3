package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
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
	for _, name := range []string{"events_per_s", "raw_publish_per_s", "reference_per_s", "row_by_row_per_s"} {
		if rate, ok := got[name].(float64); !ok || rate <= 0 {
			t.Errorf("%s is %v, want a rate", name, got[name])
		}
	}
	if text, _ := got["durability"].(string); !strings.Contains(text, "synchronous_commit") {
		t.Errorf("durability is %q, want the database's settings in it", text)
	}
	out.Reset()
	o.json, o.profile = false, filepath.Join(t.TempDir(), "cpu.pprof")
	if err := benchDrain(t.Context(), &out, o); err != nil || !strings.Contains(out.String(), "0 lost, 0 duplicated, 0 stuck") {
		t.Errorf("%v, as text:\n%s", err, out.String())
	}
	if raw, err := os.ReadFile(o.profile); err != nil || len(raw) == 0 {
		t.Errorf("the profile: %d bytes, %v", len(raw), err)
	}
}

// objects reads one JSON object a line.
func objects(t *testing.T, text string) (all []map[string]any) {
	t.Helper()
	for line := range strings.Lines(text) {
		var one map[string]any
		if err := json.Unmarshal([]byte(line), &one); err != nil {
			t.Fatalf("%v in %s", err, line)
		}
		all = append(all, one)
	}
	return all
}

// benchOutput runs the command line and returns what it prints.
func benchOutput(t *testing.T, args ...string) string {
	t.Helper()
	var out bytes.Buffer
	cmd := root()
	cmd.SetOut(&out)
	cmd.SetArgs(append([]string{"bench"}, args...))
	if err := cmd.ExecuteContext(t.Context()); err != nil {
		t.Fatalf("bench %v: %v", args, err)
	}
	return out.String()
}

// Each benchmark prints a line for each measurement, with the figures in it.
func TestBenchReports(t *testing.T) {
	servertest.URL(t, "postgres")
	for _, c := range []struct {
		args    []string
		lines   int
		figures []string // more than 0 in each line
	}{
		{[]string{"latency", "--rate", "500", "--rows", "20", "--rest", "10ms"}, 6, []string{"p50_ms", "p99_ms", "max_ms", "rate", "rows", "batch"}},
		{[]string{"latency", "--rate", "200,500", "--rows", "20", "--rest", "500ms", "--poll", "10ms"}, 2, []string{"p50_ms", "queries_per_s_at_rest"}},
		{[]string{"claim", "--sent", "0,500", "--pending", "100,200", "--loops", "2"}, 12, []string{"p50_ms", "max_ms", "pending", "loops"}},
		{[]string{"claim", "--snapshot", "50ms"}, 6, []string{"events_per_s", "of_before", "rows"}},
		{[]string{"producer", "--rows", "30", "--clients", "1,3"}, 8, []string{"orders_per_s", "p50_ms", "p99_ms", "of_orders_only", "clients"}},
	} {
		got := objects(t, benchOutput(t, append(c.args, "--bus", inMemory, "--json")...))
		if len(got) != c.lines {
			t.Errorf("%v: %d lines, want %d", c.args, len(got), c.lines)
		}
		for _, one := range got {
			for _, name := range c.figures {
				if v, ok := one[name].(float64); !ok || v <= 0 {
					t.Errorf("%v: %s is %v in %v", c.args, name, one[name], one)
				}
			}
			if one["bus"] != inMemory || !strings.Contains(one["postgres"].(string), "fsync") {
				t.Errorf("%v: bus or settings missing in %v", c.args, one)
			}
		}
	}
}

// As text: a heading and a line for each measurement.
func TestBenchPrintsTables(t *testing.T) {
	servertest.URL(t, "postgres")
	for _, c := range []struct {
		args    []string
		heading string
		lines   int
	}{
		{[]string{"latency", "--rate", "500", "--rows", "20", "--rest", "10ms", "--poll", "5ms"}, "queries/s idle", 3},
		{[]string{"claim", "--sent", "0", "--pending", "100", "--loops", "1"}, "index", 4},
		{[]string{"producer", "--rows", "30", "--clients", "1"}, "orders/s", 5},
	} {
		text := benchOutput(t, append(c.args, "--bus", inMemory)...)
		if !strings.Contains(text, c.heading) || strings.Count(text, "\n") != c.lines {
			t.Errorf("%v: want %q and %d lines:\n%s", c.args, c.heading, c.lines, text)
		}
	}
}

func TestBenchRefusesNonsense(t *testing.T) {
	for _, args := range [][]string{{"bench"}, {"bench", "nothing"}, {"bench", "drain", "--bus", "none"},
		{"bench", "latency", "--bus", inMemory, "--rest", "0s"}, {"bench", "latency", "--bus", inMemory, "--rate", "0"},
		{"bench", "latency", "--bus", inMemory, "--poll", "-1s"}, {"bench", "claim", "--bus", inMemory, "--pending", "1"},
		{"bench", "claim", "--bus", "none"}, {"bench", "claim", "--bus", inMemory, "--snapshot", "-1s"},
		{"bench", "producer", "--bus", inMemory, "--clients", "0"}, {"bench", "drain", "more"}, {"bench", "drain", "--bus", inMemory, "--classic"}, {"bench", "latency", "--bus", inMemory, "--classic"}} {
		cmd := root()
		cmd.SetArgs(args)
		if err := cmd.ExecuteContext(t.Context()); err == nil {
			t.Errorf("%v: no error", args)
		}
	}
}

// What cannot work is said before a server is started, and not after the first half of
// the measurement.
func TestBenchRefusesEarly(t *testing.T) {
	for want, args := range map[string][]string{
		"--batch: at least 1":     {"drain", "--batch", "0"},
		"--rows: at least 1":      {"latency", "--rows", "0"},
		"--clients: 1 to 128":     {"producer", "--clients", "1,-1"},
		"--clients: 1 to 128, no": {"twophase", "--clients", "1,129"},
		"--cpuprofile: ":          {"drain", "--cpuprofile", t.TempDir() + "/nowhere/profile"},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		cancel() // whoever goes as far as the servers fails with this
		cmd := root()
		cmd.SetArgs(append(append([]string{"bench"}, args...), "--bus", inMemory))
		if err := cmd.ExecuteContext(ctx); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", args, err, want)
		}
	}
}
