package main

import (
	"encoding/json"
	"strings"
	"testing"

	"outboxplayground/core/audit"
)

// The matrix as a command: one array on stdout, progress on stderr, exit code 0 when
// every measured cell is as declared, and the results are kept.
func TestMatrixCommand(t *testing.T) {
	t.Parallel()
	b := newBench(t, "nats")
	stdout, stderr, code := b.command(t, "matrix", "--chapters", "1", "--buses", "nats", "--faults", "rollback,two-relays", "--json")
	if code != 0 {
		t.Fatalf("exit code %d\n%s\n%s", code, stdout, stderr)
	}
	var cells []cell
	dec := json.NewDecoder(strings.NewReader(stdout))
	if err := dec.Decode(&cells); err != nil || dec.More() {
		t.Fatalf("stdout is not one array (%v):\n%s", err, stdout)
	}
	valid := map[string]audit.Validity{"write-first/rollback": audit.True, "publish-first/rollback": audit.False}
	for _, c := range cells {
		want, measured := valid[c.Variant+"/"+c.Fault]
		switch {
		case c.Chapter != 1 || c.Bus != "nats" || c.Declared == "" || c.Differs != "":
			t.Errorf("%+v", c)
		case !measured && (c.NA == "" || c.Report != nil):
			t.Errorf("%s: a chapter without a relay has two of them: %+v", c.Fault, c)
		case measured && (c.Report == nil || c.Report.Valid != want):
			t.Errorf("%s/%s: %+v, want valid %s", c.Variant, c.Fault, c.Report, want)
		case measured:
			b.load(t, c.Report.ID)
		}
	}
	if len(cells) != 4 {
		t.Errorf("%d cells, want 2 variants under 2 faults", len(cells))
	}
	if !strings.Contains(stderr, "[  4/  4]") || !strings.Contains(stderr, "0 differ") {
		t.Errorf("the progress:\n%s", stderr)
	}
	b.nothingLeft(t)
}

// A cell that measures something else is exit code 1, and named.
func TestMatrixCommandFindsADifference(t *testing.T) {
	b := newBench(t, "nats")
	t.Setenv(sabotageMark, "no-email") // for the children only
	stdout, stderr, code := b.command(t, "matrix", "--chapters", "3", "--buses", "nats", "--faults", "none")
	if code != exitNotValid || !strings.Contains(stdout, "✗ 1 lost, none declared") || !strings.Contains(stderr, "differ from what is declared") {
		t.Errorf("exit code %d\n%s\n%s", code, stdout, stderr)
	}
	b.nothingLeft(t)
}

// A name that nobody knows is exit code 3, also beside one that is known.
func TestMatrixCommandRefuses(t *testing.T) {
	b := newBench(t, "nats")
	for want, args := range map[string][]string{
		"there is no chapter 77": {"--chapters", "1,77"},
		`there is no fault "fi`:  {"--faults", "none,fire"},
		`there is no bus "pige`:  {"--buses", "nats,pigeon"},
		"--parallel: 1 to 16":    {"--parallel", "0"},
		"nothing to run":         {"--faults", ""},
	} {
		stdout, stderr, code := b.command(t, append([]string{"matrix"}, args...)...)
		if code != exitCouldNotRun || stdout != "" || !strings.Contains(stderr, want) {
			t.Errorf("matrix %v: exit code %d, stdout %q, stderr %q; want 3, nothing, and %q", args, code, stdout, stderr, want)
		}
	}
}
