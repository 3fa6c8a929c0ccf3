package browsertest

import (
	"bufio"
	"encoding/json"
	"net/http"
	"slices"
	"testing"
	"time"
)

// resume: the connection breaks in the middle of a run; the page comes back by itself,
// has missed nothing, and reaches the verdict without being loaded again.
func (d *desk) resume(t *testing.T) {
	l := d.layLine(t)
	p := d.tabAt(t, l.origin())
	p.allow("net::ERR_") // the cut
	p.open("/play?ch=1&bus=nats&n=30&fault=broker-slow")
	p.settled()
	p.fill("#prediction", "30")
	p.click("#experiment button.primary")
	eventually(t, 20*time.Second, "five events of the stream", func() bool { return len(p.streamed()) >= 5 })
	before := p.streamed()
	ask[bool](p, "window.notLoadedAgain = true")
	p.forget()
	l.cut()
	eventually(t, 20*time.Second, "the page to try again", func() bool { return l.refused() > 0 })
	l.mend()
	p.within(45*time.Second, "the verdict", hasVerdict)
	if !ask[bool](p, "window.notLoadedAgain === true") {
		t.Error("the page was loaded again")
	}
	all, got := d.events(t, p.runID()), p.streamed()
	if !slices.Equal(got, all) || len(got) == len(before) {
		t.Errorf("the page saw the events %v, of which %d before the cut; the run had %v", got, len(before), all)
	}
}

// events are the numbers of all events of a run, as the server remembers them.
func (d *desk) events(t *testing.T, run string) (ids []int) {
	t.Helper()
	req, err := http.NewRequest(http.MethodGet, d.api+"/runs/"+run+"/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", "application/x-ndjson")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		var e struct{ Seq int }
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			t.Fatalf("%s: %v", lines.Text(), err)
		}
		ids = append(ids, e.Seq)
	}
	return ids
}
