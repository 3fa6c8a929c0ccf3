package lab

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"outboxplayground/core/audit"
)

// Agrees compares what was measured with what a chapter declares. A word with a
// number must be equal, a word without one means at least one, every other bad
// count must be zero; refused compares only where it is named. "late" is "ok" with
// at least one event delivered after the outage. The answer names the difference,
// "" when there is none.
func Agrees(declared string, r Report) string {
	if r.Valid == audit.Unknown {
		return "unknown: " + r.Why
	}
	want, err := parseDeclared(declared)
	if err != nil {
		return err.Error()
	}
	if _, na := want["n/a"]; na {
		return "declared n/a, but it was measured"
	}
	v := r.Measured
	for _, c := range []struct {
		word string
		n    int
	}{{"lost", v.Lost}, {"phantom", v.Phantom}, {"duplicated", v.Duplicated},
		{"reordered", v.Reordered}, {"stuck", v.Stuck}, {"pending", v.Pending}} {
		if diff := want.differs(c.word, c.n); diff != "" {
			return diff
		}
	}
	if _, named := want["refused"]; named {
		if diff := want.differs("refused", v.Refused); diff != "" {
			return diff
		}
	}
	if _, named := want["late"]; named && r.Late == 0 {
		return "declared late, but nothing was delivered after the outage"
	}
	return ""
}

// expectation has a count for each declared word; anyCount means at least one.
type expectation map[string]int

const anyCount = -1

// declarable are the words of a declaration; all but the first two and the last
// may carry a number.
func declarable() []string {
	return []string{"ok", "late", "lost", "phantom", "duplicated", "reordered", "stuck", "pending", "refused", "n/a"}
}

func parseDeclared(declared string) (expectation, error) {
	want := expectation{}
	for _, part := range strings.Split(declared, ",") {
		words := strings.Fields(part)
		switch {
		case len(words) > 0 && !slices.Contains(declarable(), words[0]):
			return nil, fmt.Errorf("the declaration %q has a word that means nothing", declared)
		case len(words) == 1 && words[0] == "ok":
		case len(words) == 1:
			want[words[0]] = anyCount
		case len(words) == 2:
			n, err := strconv.Atoi(words[1])
			if err != nil {
				return nil, fmt.Errorf("the declaration %q cannot be read", declared)
			}
			want[words[0]] = n
		default:
			return nil, fmt.Errorf("the declaration %q cannot be read", declared)
		}
	}
	return want, nil
}

func (w expectation) differs(word string, measured int) string {
	n, named := w[word]
	switch {
	case !named && measured > 0:
		return fmt.Sprintf("%d %s, none declared", measured, word)
	case named && n == anyCount && measured == 0:
		return fmt.Sprintf("declared %s, measured none", word)
	case named && n != anyCount && n != measured:
		return fmt.Sprintf("declared %s %d, measured %d", word, n, measured)
	}
	return ""
}
