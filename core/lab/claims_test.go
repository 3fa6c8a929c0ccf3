package lab

import (
	"testing"
	"time"

	"outboxplayground/core/audit"
)

// table has one claim's two cells on every bus given; a nil verdict is a cell that was
// not measured.
func claimTable(lost map[string]int, unknown ...string) (table []Guarantee) {
	for _, b := range []string{"rabbitmq", "nats", "inmemory"} {
		for _, f := range []string{"none", "broker-down"} {
			g := Guarantee{Chapter: 1, Variant: "v", Bus: b, Fault: f}
			if b == "inmemory" && f == "broker-down" {
				g.NotApplicable = "no network"
			}
			if n, ok := lost[b]; ok {
				g.Measured = &Report{ID: b + f, Valid: audit.False, Mode: "real", Measured: audit.Verdict{Lost: n}, AsOf: time.Unix(1, 0)}
				for _, u := range unknown {
					if u == b {
						g.Measured.Valid = audit.Unknown
					}
				}
			}
			table = append(table, g)
		}
	}
	return table
}

func TestAClaimStandsAsItWasMeasured(t *testing.T) {
	claim := Claim{ID: "c", Cells: []Cell{{1, "v", "none"}, {1, "v", "broker-down"}}, Judge: func(r []Report) Holds {
		switch r[0].Measured.Lost + r[1].Measured.Lost {
		case 0:
			return No
		case 70:
			return Yes
		}
		return Partly
	}}
	for name, c := range map[string]struct {
		table []Guarantee
		found map[string]Finding
		want  Standing
	}{
		"nothing measured":        {claimTable(nil), nil, Unmeasured},
		"one bus says yes":        {claimTable(map[string]int{"nats": 35}), nil, Confirmed},
		"all say no":              {claimTable(map[string]int{"nats": 0, "rabbitmq": 0}), nil, Refuted},
		"they differ":             {claimTable(map[string]int{"nats": 35, "rabbitmq": 0}), nil, Refined},
		"with a condition":        {claimTable(map[string]int{"nats": 1}), nil, Refined},
		"unknown is no evidence":  {claimTable(map[string]int{"nats": 35}, "nats"), nil, Unmeasured},
		"a bus it is not about":   {claimTable(map[string]int{"inmemory": 35}), nil, Unmeasured},
		"a measurement says no":   {claimTable(nil), map[string]Finding{"c": {Holds: No}}, Refuted},
		"another's measurement":   {claimTable(nil), map[string]Finding{"d": {Holds: No}}, Unmeasured},
		"measurement against run": {claimTable(map[string]int{"nats": 35}), map[string]Finding{"c": {Holds: No}}, Refined},
	} {
		j := JudgeClaims([]Claim{claim}, c.table, c.found)[0]
		if j.Standing != c.want {
			t.Errorf("%s: %s, want %s", name, j.Standing, c.want)
		}
		if len(j.Buses) != 2 {
			t.Errorf("%s: %d buses, want the two on which both cells exist", name, len(j.Buses))
		}
	}
}

// A claim of one measured cell and one that is not is not judged by half.
func TestHalfTheEvidenceIsNone(t *testing.T) {
	claim := Claim{Cells: []Cell{{1, "v", "none"}, {1, "v", "broker-down"}}, Judge: func([]Report) Holds { return Yes }}
	table := claimTable(map[string]int{"nats": 35})
	for i := range table {
		if table[i].Fault == "none" {
			table[i].Measured = nil
		}
	}
	j := JudgeClaims([]Claim{claim}, table, nil)[0]
	if j.Standing != Unmeasured || j.Buses[1].Runs[0] != "" || j.Buses[1].Runs[1] != "natsbroker-down" {
		t.Errorf("%+v", j)
	}
}
