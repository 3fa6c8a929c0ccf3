package main

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"outboxplayground/core/audit"
	"outboxplayground/core/lab"
)

// Every claim rests on cells that exist, or says how it could be measured.
func TestClaimsRestOnCellsThatExist(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range claims(nil, nil) {
		if seen[c.ID] {
			t.Errorf("two claims are called %s", c.ID)
		}
		seen[c.ID] = true
		if c.Text.En == "" || c.Text.ZhTW == "" || !strings.HasPrefix(c.Section, "§") {
			t.Errorf("%s lacks a text or its section", c.ID)
		}
		if len(c.Cells) == 0 && c.How.En == "" || len(c.Cells) > 0 && c.Judge == nil {
			t.Errorf("%s rests on nothing", c.ID)
		}
		for _, cell := range c.Cells {
			if err := (lab.Spec{Chapter: cell.Chapter, Variant: cell.Variant, Bus: "nats", Fault: cell.Fault}).Check(contents()); err != nil {
				t.Errorf("%s: %v", c.ID, err)
			}
		}
	}
	if len(seen) < 14 {
		t.Errorf("only %d claims", len(seen))
	}
}

// measuredAs makes the report that a declaration describes.
func measuredAs(t *testing.T, g lab.Guarantee) lab.Report {
	t.Helper()
	r := lab.Report{Valid: audit.True, Measured: audit.Verdict{Orders: 47, Delivered: 47}}
	count := func(word string, n int) {
		v := &r.Measured
		switch word {
		case "lost":
			v.Lost, v.Delivered = n, v.Delivered-n
		case "stuck":
			v.Stuck, v.Delivered = n, v.Delivered-n
		case "refused":
			v.Refused, v.Orders, v.Delivered = n, v.Orders-n, v.Delivered-n
		case "duplicated":
			v.Duplicated = n
		case "phantom":
			v.Phantom, v.Orders, v.Delivered = n, v.Orders-n, v.Delivered-n
		case "late":
			r.Late = 35
		}
	}
	for _, part := range strings.Split(g.Declared, ",") {
		word, n := "", 1
		fmt.Sscan(part, &word, &n)
		count(word, n)
	}
	if gone := g.Fault == "rollback" || g.Fault == "crash-before-commit"; gone && r.Measured.Phantom == 0 {
		r.Measured.Orders, r.Measured.Delivered = 46, 46
	}
	if r.Measured.Valid() != audit.True {
		r.Valid = audit.False
	}
	return r
}

// The claims are held against results as the chapters declare them: then it is known
// how each stands. A judge that says yes to everything is found here.
func TestClaimsStandAsTheDeclaredResultsSay(t *testing.T) {
	var table []lab.Guarantee
	for _, c := range contents() {
		for _, v := range c.Variants {
			for _, d := range v.Declared {
				for _, b := range []string{"rabbitmq", "kafka", "nats", "redis", "inmemory"} {
					f, _ := lab.FaultNamed(d.Fault)
					g := lab.Guarantee{Chapter: c.Number, Variant: v.Name, Bus: b, Fault: d.Fault,
						Declared: d.On(b), NotApplicable: f.NotApplicable(c, b)}
					if g.NotApplicable == "" {
						r := measuredAs(t, g)
						g.Measured = &r
					}
					table = append(table, g)
				}
			}
		}
	}
	want := map[string]lab.Standing{"coordinator-dies": lab.Refined, "heals-by-itself": lab.Refined, "skip-locked": lab.Refuted, "sent-again": lab.Refined,
		"never-lost": lab.Refined, "partial-index": lab.Unmeasured, "unique-event": lab.Unmeasured}
	for _, j := range lab.JudgeClaims(claims(nil, nil), table, nil) {
		expected, special := want[j.ID]
		if len(j.Cells) > 0 && !special {
			expected, special = lab.Confirmed, true
		}
		if special && j.Standing != expected {
			t.Errorf("%s is %s, want %s: %+v", j.ID, j.Standing, expected, j.Buses)
		}
		if because := j.Because[j.Standing]; j.Standing == lab.Refined && (because.En == "" || because.ZhTW == "") {
			t.Errorf("%s is refined and nothing says why", j.ID)
		}
	}
}

// A claim must be able to fail: no judge says yes to a run in which everything is
// wrong, nor to its opposite.
func TestNoClaimIsTrueOfEverything(t *testing.T) {
	bad := lab.Report{Valid: audit.False, Measured: audit.Verdict{Orders: 1, Lost: 9, Duplicated: 9, Phantom: 9, Stuck: 9, Refused: 9}}
	good := lab.Report{Valid: audit.True, Measured: audit.Verdict{Orders: 3, Delivered: 3}}
	for _, c := range claims(nil, nil) {
		if c.Judge == nil {
			continue
		}
		never := func(r lab.Report) bool {
			all := make([]lab.Report, len(c.Cells))
			for i := range all {
				all[i] = r
			}
			return c.Judge(all) != lab.Yes
		}
		if !never(bad) && !never(good) {
			t.Errorf("%s is true of anything", c.ID)
		}
	}
}

// docs/claims.md lists the same claims, with the same words and the same cells.
func TestTheListOfClaimsIsTheSameInTheDocument(t *testing.T) {
	raw, err := os.ReadFile("../docs/claims.md")
	if err != nil {
		t.Fatal(err)
	}
	var want strings.Builder
	for _, c := range claims(nil, nil) {
		fmt.Fprintf(&want, "\n## %s\n\n%s. %s\n\n%s\n\n%s\n", c.ID, c.Section, c.Text.En, c.Text.ZhTW, rests(c))
	}
	_, list, _ := strings.Cut(string(raw), "<!-- the list -->\n")
	if list != want.String() {
		t.Errorf("docs/claims.md does not list the claims of chapters/claims.go; after <!-- the list --> it should have:\n%s", want.String())
	}
}

// rests says in a line what a claim rests on.
func rests(c lab.Claim) string {
	if len(c.Cells) == 0 {
		return "Rests on: " + c.How.En
	}
	cells := make([]string, len(c.Cells))
	for i, cell := range c.Cells {
		cells[i] = fmt.Sprintf("chapter %d `%s`, `%s`", cell.Chapter, cell.Variant, cell.Fault)
	}
	return "Rests on: " + strings.Join(cells, "; ")
}
