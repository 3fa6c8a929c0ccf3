package picture

import (
	"fmt"
	"html/template"
	"slices"
	"strings"
	"time"

	"outboxplayground/core/lab"
)

// Timeline is the life of one event: lanes, what happened, and what was broken.
// Make it with NewTimeline.
type Timeline struct {
	ID    string // unique on its page, for the elements' ids
	Title string
	Steps []Step
	// Broken tells in words what was broken and when, for the list.
	Broken []string
	// End tells what became of the event, End.Word in the audit's word.
	End Ending

	lanes  []string
	downs  []down
	sentAt time.Time
	say    Say
}

// Ending is how it ends.
type Ending struct {
	Word string // of Fate
	Tell string
	// by lane: what is there in the end
	at map[string]endMark
}

type endMark struct {
	sign Sign
	said string
}

// down is a stretch in which a lane did not work.
type down struct {
	lane, said string
	begin, end time.Time
}

// NewTimeline reads the story of an event. broken is what the run's report says was
// broken; outbox says whether the event's chapter has an outbox.
func NewTimeline(say Say, e lab.EventTrail, broken []lab.Stretch, outbox bool) Timeline {
	t := Timeline{ID: "t-" + strings.Split(e.Trail.EventID, "-")[0], say: say, Steps: tell(say, e, outbox),
		Title: say("picture.timeline.title", e.Trail.EventID)}
	if e.Trail.Outbox != nil && e.Trail.Outbox.SentAt != nil {
		t.sentAt = *e.Trail.Outbox.SentAt
	}
	t.lanes = lanesOf(t.Steps, outbox)
	t.End = ending(say, e, outbox)
	for _, b := range broken {
		t.addDown(b)
	}
	return t
}

// lanesOf lists the lanes from the client to the consumer. A role that is not known
// here comes before the broker.
func lanesOf(steps []Step, outbox bool) []string {
	lanes := []string{laneClient, laneService, laneOrders}
	if outbox {
		lanes = append(lanes, laneOutbox, laneRelay)
	}
	rest := []string{laneBroker, laneConsumer}
	for _, s := range steps {
		for _, key := range []string{s.From, s.To} {
			if !slices.Contains(lanes, key) && !slices.Contains(rest, key) {
				lanes = append(lanes, key)
			}
		}
	}
	return append(lanes, rest...)
}

// addDown notes a stretch that reaches into the event's time.
func (t *Timeline) addDown(b lab.Stretch) {
	if len(t.Steps) == 0 {
		return
	}
	first, last := t.Steps[0].At, t.Steps[len(t.Steps)-1].At
	if b.Begin.After(last.Add(time.Millisecond)) || !b.End.IsZero() && b.End.Before(first) {
		return
	}
	said := t.say("picture.down." + map[string]string{"broker-slow": "slow", "ack-lost": "ack-lost", "SIGKILL": "dead",
		"SIGSTOP": "stopped", "db-down": "database"}[b.What])
	if strings.HasPrefix(said, "picture.") {
		said = t.say("picture.down.broker")
	}
	lanes := []string{lane(b.Where)}
	if b.Where == lab.AtDatabase {
		lanes = slices.DeleteFunc([]string{laneOrders, laneOutbox}, func(l string) bool { return !slices.Contains(t.lanes, l) })
	}
	for _, l := range lanes {
		t.downs = append(t.downs, down{lane: l, said: said, begin: b.Begin, end: b.End})
	}
	begin, end := offset(max(0, b.Begin.Sub(first))), ""
	name := laneName(t.say, lanes[0])
	if b.End.IsZero() {
		t.Broken = append(t.Broken, t.say("picture.tell.broken-for-good", name, said, begin))
		return
	}
	end = offset(b.End.Sub(first))
	t.Broken = append(t.Broken, t.say("picture.tell.broken", name, said, begin, end))
}

// ending reads from the trail what is there in the end.
func ending(say Say, e lab.EventTrail, outbox bool) Ending {
	end := Ending{Word: Fate(e), at: map[string]endMark{}}
	put := func(lane string, sign Sign, key string, args ...any) {
		end.at[lane] = endMark{sign, say("picture.end."+key, args...)}
	}
	if e.Trail.Order != nil {
		put(laneOrders, Done, "order")
	} else {
		put(laneOrders, Open, "no-order")
	}
	if o := e.Trail.Outbox; o != nil {
		put(laneOutbox, map[string]Sign{"sent": Done, "failed": Fail}[o.Status], o.Status)
	} else if outbox {
		put(laneOutbox, Open, "no-order")
	}
	switch n := len(e.Trail.Emails); {
	case len(e.Trail.DeadLetters) > 0 && n == 0:
		put(laneConsumer, Fail, "letter")
	case n == 0 && e.Trail.Order != nil:
		put(laneConsumer, Fail, "no-email")
	case n == 0:
		put(laneConsumer, Open, "no-email")
	case n == 1:
		put(laneConsumer, Email, "email")
	default:
		put(laneConsumer, Fail, "emails", n)
	}
	var said []string
	for _, l := range []string{laneOrders, laneOutbox, laneConsumer} {
		if m, ok := end.at[l]; ok {
			said = append(said, say("picture.tell.part", laneName(say, l), m.said))
		}
	}
	end.Tell = say("picture.tell.end", strings.Join(said, say("picture.tell.between")))
	return end
}

// offset writes a time since the beginning, as precise as it is interesting.
func offset(d time.Duration) string {
	ms := float64(d.Microseconds()) / 1000
	switch {
	case d == 0:
		return "0"
	case ms < 10:
		return fmt.Sprintf("%.1f ms", ms)
	case ms < 1000:
		return fmt.Sprintf("%.0f ms", ms)
	}
	return fmt.Sprintf("%.2f s", ms/1000)
}

// When is the step's time since the first, in words.
func (s Step) When() string { return offset(s.After) }

// Silence is the gap before the step in words, "" if there is none.
func (s Step) Silence() string {
	if s.Gap == 0 {
		return ""
	}
	return offset(s.Gap)
}

// Who is the name of the lane that acts: where something is read, the one that reads.
func (t Timeline) Who(s Step) string {
	if s.From == laneOutbox {
		return laneName(t.say, s.To)
	}
	return laneName(t.say, s.From)
}

// Names draws the names of the lanes, to stand still while the rest is scrolled.
func (t Timeline) Names() template.HTML {
	c, w := &canvas{}, 0.0
	for i, l := range t.lanes {
		name := laneName(t.say, l)
		w = max(w, 1.3*width(name)+18) // bold, and fonts differ
		c.text("tl-lane", 2, laneY(i)+4, "start", name)
	}
	return c.svg("tl-names", "", "", "", w, t.height())
}
