package picture

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"outboxplayground/core/audit"
	"outboxplayground/core/lab"
)

// plain says a key and its arguments, so that the tests need no words.
func plain(key string, args ...any) string {
	if len(args) == 0 {
		return key
	}
	return strings.TrimSpace(fmt.Sprintln(append([]any{key}, args...)...))
}

// elements parses a picture and counts its elements by name and by class.
func elements(t *testing.T, svg string) (names, classes map[string]int) {
	t.Helper()
	names, classes = map[string]int{}, map[string]int{}
	ids := map[string]bool{}
	d := xml.NewDecoder(strings.NewReader(svg))
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return names, classes
		}
		if err != nil {
			t.Fatalf("not XML: %v\n%s", err, svg)
		}
		e, ok := token.(xml.StartElement)
		if !ok {
			continue
		}
		names[e.Name.Local]++
		for _, a := range e.Attr {
			switch a.Name.Local {
			case "class":
				for _, c := range strings.Fields(a.Value) {
					classes[c]++
				}
			case "style", "onclick":
				t.Errorf("<%s> has the attribute %s, which the policy forbids", e.Name.Local, a.Name.Local)
			case "id":
				if ids[a.Value] {
					t.Errorf("the id %s is there twice", a.Value)
				}
				ids[a.Value] = true
			}
		}
	}
}

// journal makes the timeline of an event from "ms label step text" lines.
func journal(lines ...string) lab.EventTrail {
	e := lab.EventTrail{Order: 13, Trail: audit.Trail{EventID: "9b22aaaa-0000"}}
	for _, l := range lines {
		var ms float64
		var label, step string
		rest := strings.SplitN(l, " ", 4)
		fmt.Sscan(rest[0], &ms)
		label, step = rest[1], rest[2]
		line := lab.Line{At: start().Add(time.Duration(ms * float64(time.Millisecond))), Label: label, Step: step, EventID: "9b22aaaa-0000"}
		if len(rest) > 3 {
			line.Text = rest[3]
		}
		e.Timeline = append(e.Timeline, line)
	}
	return e
}

func start() time.Time { return time.Date(2026, 11, 29, 2, 0, 0, 0, time.UTC) }

func at(ms int) time.Time { return start().Add(time.Duration(ms) * time.Millisecond) }

// words lists what the steps say, in order.
func words(t Timeline) string {
	var all []string
	for _, s := range t.Steps {
		all = append(all, s.From+"→"+s.To+" "+strings.TrimPrefix(s.Word, "picture.word."))
	}
	return strings.Join(all, ", ")
}

func lostEvent() lab.EventTrail {
	e := journal("0 client order", "5 producer before-commit", "6 producer after-commit", "6.1 producer before-publish",
		"6.2 producer publish-failed unavailable: <refused>", "6.5 client answer 201")
	e.Trail.Order, e.Trail.Verdict = &audit.Order{}, audit.Verdict{Orders: 1, Lost: 1}
	return e
}

func TestALostEventIsToldInSteps(t *testing.T) {
	tl := NewTimeline(plain, lostEvent(), []lab.Stretch{{What: "broker-down", Where: "broker", Begin: at(-1), End: at(90)}}, false)
	if got, want := words(tl), "client→service order, service→orders commit, service→broker publish-failed, service→client 201"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if tl.End.Word != "lost" || len(tl.Broken) != 1 || !strings.Contains(tl.Broken[0], "picture.down.broker") {
		t.Errorf("end %+v, broken %v", tl.End, tl.Broken)
	}
	names, classes := elements(t, string(tl.SVG()))
	for class, want := range map[string]int{"tl-step": 4, "tl-line": 5, "tl-down": 1, "tl-end": 1, "tl-gap": 0, "tl-row": 1} {
		if classes[class] != want {
			t.Errorf("%d of class %s, want %d", classes[class], class, want)
		}
	}
	if names["desc"] != 1 || names["title"] < 6 {
		t.Errorf("elements: %v", names)
	}
	if !strings.Contains(string(tl.SVG()), "&lt;refused&gt;") {
		t.Error("the error's text is not escaped")
	}
}

// What the broker answered and what died is told as it came: a crash between the
// acknowledgement and the mark, then the same event once more.
func TestARepeatedPublishIsToldTwice(t *testing.T) {
	e := journal("0 client order", "1 producer before-commit", "2 producer after-commit", "3 client answer 201",
		"340 relay claimed", "340.1 relay before-publish", "340.5 consumer before-effect", "340.6 relay after-publish",
		"341 consumer after-effect", "341.1 consumer before-ack", "370 relay killed SIGKILL",
		"675 relay claimed", "675.1 relay before-publish", "676 consumer before-effect", "676.1 relay after-publish",
		"676.2 relay before-mark", "677 consumer after-effect", "677.1 consumer before-ack", "678 relay after-mark")
	sent := at(678)
	e.Trail.Order, e.Trail.Outbox = &audit.Order{}, &audit.Outbox{Status: "sent", SentAt: &sent}
	e.Trail.Emails, e.Trail.Verdict = make([]audit.Email, 2), audit.Verdict{Orders: 1, Delivered: 1, Duplicated: 1}
	tl := NewTimeline(plain, e, []lab.Stretch{{What: "SIGKILL", Where: "relay", Begin: at(370), End: at(470)}}, true)
	want := "client→service order, service→outbox commit-outbox, service→client 201, outbox→relay claimed, relay→broker published, " +
		"broker→consumer delivered, consumer→consumer email-ack, relay→relay killed, outbox→relay claimed, relay→broker published, " +
		"broker→consumer delivered, relay→outbox marked, consumer→consumer email-ack"
	if got := words(tl); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	_, classes := elements(t, string(tl.SVG()))
	if classes["tl-gap"] != 2 || classes["tl-row"] != 3 || classes["is-death"] != 1 || tl.End.Word != "duplicated" {
		t.Errorf("classes %v, end %s", classes, tl.End.Word)
	}
}

func TestStandingStillIsNotToldAsWork(t *testing.T) {
	e := journal("0 relay claimed", "1 relay before-publish", "3000 relay-b claimed", "3001 relay-b before-publish",
		"3002 relay-b after-publish", "3003 relay-b before-mark", "3004 relay-b after-mark", "4000 relay after-publish",
		"4001 relay before-mark", "4002 relay after-mark")
	tl := NewTimeline(plain, e, nil, true)
	want := "outbox→relay claimed, relay→relay before-publish, outbox→relay-b claimed, relay-b→broker published, " +
		"relay-b→outbox marked, relay→broker published, relay→outbox marked"
	if got := words(tl); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got := strings.Join(tl.lanes, " "); got != "client service orders outbox relay relay-b broker consumer" {
		t.Errorf("lanes %s", got)
	}
}

func TestAFailedAttemptIsNotedAndNotCalledSent(t *testing.T) {
	e := journal("0 relay claimed", "1 relay before-publish", "2 relay publish-failed unavailable", "3 relay before-mark")
	if got, want := words(NewTimeline(plain, e, nil, true)), "outbox→relay claimed, relay→broker publish-failed, relay→outbox noted"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestAnAbsorbedRepeatSendsNoEmail(t *testing.T) {
	e := journal("0 consumer before-effect", "1 consumer after-effect", "2 consumer killed SIGKILL", "5000 consumer before-effect", "5001 consumer before-ack")
	if got, want := words(NewTimeline(plain, e, nil, true)), "broker→consumer delivered, consumer→consumer email, "+
		"consumer→consumer killed, broker→consumer delivered, consumer→broker absorbed"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestAnUnknownRoleAndStepAreShown(t *testing.T) {
	tl := NewTimeline(plain, journal("0 coordinator prepared"), nil, true)
	if words(tl) != "coordinator→coordinator prepared" || !strings.Contains(string(tl.Names()), ">coordinator<") {
		t.Errorf("%s\n%s", words(tl), tl.Names())
	}
}

func TestAnEventWithoutAnyLineIsDrawnToo(t *testing.T) {
	tl := NewTimeline(plain, lab.EventTrail{}, []lab.Stretch{{What: "broker-down"}}, false)
	if _, classes := elements(t, string(tl.SVG())); classes["tl-step"] != 0 || classes["tl-end"] != 1 || tl.End.Word != "refused" {
		t.Errorf("%v", classes)
	}
}
