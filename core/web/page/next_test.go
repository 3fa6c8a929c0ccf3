package page

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// aCall finds the label of a call that the API suggests, in its source.
var aCall = regexp.MustCompile(`\{"([^"]+)"( \+ [\w.]+)?,\s*(?:curl\(|again\}|e\.CLI|strings\.TrimSuffix\(e\.Curl)`)

// Whoever suggests a call is told here that its label needs a translation.
func TestEveryLabelOfACallIsTranslated(t *testing.T) {
	names, err := filepath.Glob("../*.go")
	if err != nil {
		t.Fatal(err)
	}
	r := newReasons(made(t).words, Chinese, nextPrefix)
	found := 0
	for _, name := range names {
		source, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range aCall.FindAllStringSubmatch(string(source), -1) {
			label := m[1]
			if m[2] != "" {
				label += "nats"
			}
			found++
			if _, ok := r.one(label); !ok {
				t.Errorf("%s: no translation of %q", name, label)
			}
		}
	}
	if found < 40 {
		t.Errorf("only %d labels were found", found)
	}
}
