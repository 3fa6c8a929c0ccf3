package browsertest

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// finding is a rule of axe-core that a page breaks.
type finding struct {
	ID, Impact, Help string
	Nodes            []struct {
		HTML           string
		FailureSummary string
	}
}

// axe is the script that judges accessibility.
func axe(t *testing.T) string {
	t.Helper()
	path := os.Getenv("AXE_CORE")
	if path == "" {
		lack(t, "needs AXE_CORE, the path of axe.min.js (./infra/test brings it)")
	}
	script, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(script)
}

// accessible fails for every rule that the page breaks seriously, and for the order of
// headings, the landmarks and the one h1, which axe calls moderate. Only some rules
// are asked where rules are named. Source code beside a text is left out, thousands of
// coloured words; on the page of a file it is judged.
func (p *tab) accessible(axe string, rules ...string) {
	p.t.Helper()
	only := ""
	if len(rules) > 0 {
		only = `, runOnly: ["` + strings.Join(rules, `", "`) + `"]`
	}
	if !ask[bool](p, "typeof axe === 'object'") {
		ask[bool](p, axe+"; true")
	}
	for _, f := range ask[[]finding](p, `axe.run({exclude: ["main > * pre.source code"]}, {resultTypes: ["violations"]`+only+`}).then(r => r.violations)`) {
		switch f.Impact {
		case "minor":
			p.t.Logf("%s", f)
		default:
			p.t.Errorf("%s", f)
		}
	}
}

// String names the rule and up to five places that break it.
func (f finding) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "axe %s (%s): %s, in %d places", f.ID, f.Impact, f.Help, len(f.Nodes))
	for i, n := range f.Nodes {
		if i == 5 {
			break
		}
		fmt.Fprintf(&b, "\n\t%s\n\t\t%s", cut(n.HTML, 200), strings.ReplaceAll(n.FailureSummary, "\n", "\n\t\t"))
	}
	return b.String()
}

func cut(s string, n int) string {
	if len(s) > n {
		return s[:n] + "…"
	}
	return s
}
