package browsertest

import (
	"fmt"
	"testing"
	"time"
)

// hands: what a reader does by hand in a chapter. The two parts use different chapters
// and buses, so that they can go on at the same time.
func (d *desk) hands(t *testing.T) {
	t.Run("pause", func(t *testing.T) { t.Parallel(); d.pauseTheWorker(t) })
	t.Run("plug", func(t *testing.T) { t.Parallel(); d.pullThePlug(t) })
}

const (
	// arrived: the order that was placed has come to its end, the email.
	arrived = `[...document.querySelectorAll("#travel li")].length >= 4 && [...document.querySelectorAll("#travel li.is-pending")].length === 0`
	// waiting: its order is committed, and the next station has not been reached.
	waiting = `document.querySelector("#travel li:nth-child(1).is-delivered") && document.querySelector("#travel li:nth-child(2).is-pending")`
)

// pauseTheWorker: an order arrives; with the worker paused the next one waits in the
// outbox; after resume it arrives too.
func (d *desk) pauseTheWorker(t *testing.T) {
	p := d.tab(t)
	p.open("/chapters/4?bus=nats")
	p.settled()
	p.click("#place button:not(.copy)")
	p.until("the order to arrive", arrived)
	p.click(`#worker form[action$="/pause-outbox"] button`)
	p.sees(`#worker form[action$="/resume-outbox"] button`)
	p.settled()
	p.click("#place button:not(.copy)")
	p.until("the order to wait in the outbox", waiting)
	id := ask[string](p, `document.querySelector("#travel a").href.split("/").pop().split("?")[0]`)
	if trail := d.get(t, "/audit/event/"+id+"?chapter=4"); trail["outbox"].(map[string]any)["status"] != "pending" {
		t.Errorf("the worker is paused, the row is %v", trail["outbox"])
	}
	p.click(`#worker form[action$="/resume-outbox"] button`)
	p.sees(`#worker form[action$="/pause-outbox"] button`)
	eventually(t, soon, "the order to arrive after all", func() bool {
		return d.get(t, "/audit/event/"+id+"?chapter=4")["valid"] == true
	})
}

// pullThePlug: the broker is away and a countdown runs; chapter 3 gives up on the row
// that was placed meanwhile; after the broker is back a press of retry sends it.
func (d *desk) pullThePlug(t *testing.T) {
	p := d.tab(t)
	p.open("/chapters/3?bus=redis")
	p.settled()
	p.fill("#seconds", "300")
	p.click(`#plug form button`)
	p.sees("#plug .countdown")
	left := ask[int](p, `+document.querySelector("#plug .countdown").textContent`)
	p.until("the countdown to go down", `+document.querySelector("#plug .countdown").textContent < `+quote(p.text("#plug .countdown")))
	if left < 250 || left > 300 {
		t.Errorf("300 seconds were asked for, the countdown began at %d", left)
	}
	p.click("#place button:not(.copy)")
	p.until("the order to wait in the outbox", waiting)
	p.eventually(30*time.Second, "the row to fail", func() bool {
		p.open("/chapters/3?bus=redis")
		return ask[bool](p, `document.querySelector("#failed li") !== null`)
	})
	p.click(`#plug form button`) // put it back
	p.sees("#plug #seconds")
	id := ask[string](p, `document.querySelector("#failed li a").href.split("/").pop().split("?")[0]`)
	p.click("#failed li button")
	var row float64
	eventually(t, soon, "the retry to be taken", func() bool {
		outbox := d.get(t, "/audit/event/"+id+"?chapter=3")["outbox"].(map[string]any)
		row = outbox["id"].(float64)
		return outbox["attempts"].(float64) < 5 || outbox["status"] == "sent"
	})
	eventually(t, 2*soon, "the retried event to arrive", func() bool {
		trail := d.get(t, "/audit/event/"+id+"?chapter=3")
		if trail["outbox"].(map[string]any)["status"] == "failed" { // the driver needed longer than five polls to reconnect
			d.post(t, fmt.Sprintf("/admin/outbox/%.0f/retry?chapter=3", row), nil)
		}
		return trail["valid"] == true
	})
	p.open("/chapters/3?bus=redis")
	if !ask[bool](p, `document.querySelector("#failed li") === null`) {
		t.Error("the retried row is still listed as failed")
	}
}
