package web

import (
	"net/http"

	"github.com/gin-gonic/gin"

	"outboxplayground/core/lab"
	"outboxplayground/core/web/page"
)

// busCard is a bus with what its vendor promises and what was measured here.
type busCard struct {
	lab.BusInfo
	Promises []busPromise
}

// busPromise is one of the vendor's words beside the cell that tries it.
type busPromise struct {
	Key     string // of the words
	Fault   string
	Chapter int
	Cell    *lab.Report // the newest run that tries it, nil if none was made here
	Words   []outcomeCount
	Play    string
}

// promises are what is tried for every bus, each by one cell.
func promises() []struct {
	key, variant, fault string
	chapter             int
} {
	return []struct {
		key, variant, fault string
		chapter             int
	}{{"kept", "outbox", "crash-after-mark", 3}, {"redelivered", "outbox", "consumer-crash", 3}, {"repeat", "outbox", "crash-after-publish", 3}}
}

// showBuses answers with the buses as cards.
func (s *server) showBuses(c *gin.Context) {
	measured, err := s.measured(c.Request.Context())
	if err != nil {
		s.opt.Log.Warn("stored runs cannot be read", "error", err)
	}
	var cards []busCard
	for _, b := range s.live.Buses() {
		card := busCard{BusInfo: b}
		for _, p := range promises() {
			one := busPromise{Key: p.key + "." + b.Name, Chapter: p.chapter, Fault: p.fault,
				Play: "/play?" + query("ch", itoa(p.chapter), "variant", p.variant, "bus", b.Name, "fault", p.fault)}
			for _, g := range measured {
				if g.Chapter == p.chapter && g.Variant == p.variant && g.Fault == p.fault && g.Bus == b.Name {
					one.Cell, one.Words = g.Measured, verdictOf(*g.Measured)
				}
			}
			card.Promises = append(card.Promises, one)
		}
		cards = append(cards, card)
	}
	s.show(c, http.StatusOK, "buses", page.View{Title: s.say(c, "buses.title"), Nav: "/buses", Wide: true, Data: struct {
		Cards []busCard
		Curl  string
	}{cards, curl(c, http.MethodGet, "/buses")}})
}
