package lab

import (
	"cmp"
	"slices"
	"time"
)

// Stretch is a stretch of a run in which something did not work, for the timeline:
// a network that was cut off, a process that was dead or stood still.
type Stretch struct {
	// What did it: the fault's name, or the signal, SIGKILL or SIGSTOP.
	What string `json:"what"`
	// Where it was: broker, database, or the role of a process.
	Where string    `json:"where"`
	Begin time.Time `json:"begin"`
	// End is zero where nothing came back before the run was over.
	End time.Time `json:"end,omitzero"`
}

// The places of a Stretch besides the roles.
const (
	AtBroker   = "broker"
	AtDatabase = "database"
)

// stretches lists what was broken when, the earliest first.
func (r *run) stretches() []Stretch {
	list := slices.Clone(r.stopped)
	for _, o := range r.outages {
		where := AtBroker
		if o.what == "db-down" {
			where = AtDatabase
		}
		list = append(list, Stretch{What: o.what, Where: where, Begin: o.begin.UTC(), End: o.end.UTC()})
	}
	for _, s := range deaths(r.journal.all()) {
		list = append(list, r.everyRole(s)...)
	}
	slices.SortStableFunc(list, func(a, b Stretch) int {
		return cmp.Or(a.Begin.Compare(b.Begin), cmp.Compare(a.Where, b.Where))
	})
	return list
}

// deaths reads from the journal who was killed, and when its successor was ready.
func deaths(lines []Line) (list []Stretch) {
	for i, l := range lines {
		if l.Step != sayKilled {
			continue
		}
		dead := Stretch{What: "SIGKILL", Where: l.Label, Begin: l.At.UTC()}
		for _, later := range lines[i:] {
			if later.Label == l.Label && later.Step == sayReady {
				dead.End = later.At.UTC()
				break
			}
		}
		list = append(list, dead)
	}
	return list
}

// everyRole repeats a death for all that died with the process: in memory all roles
// and the broker live in one.
func (r *run) everyRole(dead Stretch) []Stretch {
	if !r.memory() {
		return []Stretch{dead}
	}
	where := []string{AtBroker, Producing, Consuming}
	if r.variant.Relay != nil {
		where = append(where, Relaying)
	}
	list := make([]Stretch, len(where))
	for i, w := range where {
		list[i] = dead
		list[i].Where = w
	}
	return list
}
