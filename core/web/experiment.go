package web

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"outboxplayground/core/lab"
)

// experiment is the form in which a run is asked for, with what it starts from.
type experiment struct {
	Chapter   lab.Chapter
	Variant   lab.Variant
	Bus       lab.BusInfo
	Fault     lab.Fault
	Orders    int
	Seed      uint64
	Outage    time.Duration // 0: as short as the lesson needs
	MaxOrders int
	Buses     []lab.BusInfo
	Faults    []faultChoice
	// Curl and CLI are the same run as commands. They have no prediction yet.
	Curl, CLI string
	Link      string // to this form, as it stands
}

// faultChoice is a fault and where it does not exist.
type faultChoice struct {
	lab.Fault
	Selected bool
	Here     bool   // it exists for this chapter on the chosen bus
	Except   string // the buses on which it does not, joined with blanks
	Why      string // why it does not exist here
}

// usualFault is what a reader tries first where the chapter does not say.
const usualFault = "broker-down"

// experimentOf reads what the address asks for. Nothing is run.
func (s *server) experimentOf(c *gin.Context, ch lab.Chapter, in input) (*experiment, *problem) {
	v, p := variantOf(ch, in)
	if p != nil {
		return nil, p
	}
	b, p := s.busOf(in)
	if p != nil {
		return nil, p
	}
	e := &experiment{Chapter: ch, Variant: v, Bus: b, Orders: lab.DefaultOrders, MaxOrders: lab.MaxOrders, Buses: s.live.Buses()}
	name, given := in.str("fault")
	if !given {
		name = firstFault(ch, b.Name)
	}
	var known bool
	if e.Fault, known = lab.FaultNamed(name); !known {
		return nil, invalid(fieldError{"fault", "unknown; GET /faults lists them"})
	}
	if n, given := in["orders"].(int64); given {
		if n < 1 || n > lab.MaxOrders {
			return nil, invalid(fieldError{"orders", fmt.Sprintf("must be 1 to %d", lab.MaxOrders)})
		}
		e.Orders = int(n)
	}
	if n, given := in["seed"].(uint64); given {
		e.Seed = n
	}
	if e.Outage, p = outageOf(in); p != nil {
		return nil, p
	}
	if !lasts(e.Fault) {
		e.Outage = 0
	}
	e.Faults = s.choices(e)
	e.Curl = curl(c, http.MethodPost, "/runs", e.pairs("chapter", "orders")...)
	e.CLI, e.Link = e.command(), "/play?"+query(e.pairs("ch", "n")...)
	return e, nil
}

// AsksDelivered tells whether the number that is asked for means what it means where
// no figure is named.
func (e *experiment) AsksDelivered() bool { return e.Chapter.AskedFor() == lab.Figures()[0] }

// firstFault is the chapter's own first fault, or one that exists on this bus.
func firstFault(ch lab.Chapter, busName string) string {
	name := ch.Try
	if name == "" {
		name = usualFault
	}
	if f, ok := lab.FaultNamed(name); ok && f.NotApplicable(ch, busName) != "" {
		return "crash-after-commit"
	}
	return name
}

func (s *server) choices(e *experiment) (list []faultChoice) {
	for _, f := range lab.Faults() {
		var not []string
		for _, b := range e.Buses {
			if f.NotApplicable(e.Chapter, b.Name) != "" {
				not = append(not, b.Name)
			}
		}
		if len(not) == len(e.Buses) {
			continue
		}
		why := f.NotApplicable(e.Chapter, e.Bus.Name)
		list = append(list, faultChoice{f, f.Name == e.Fault.Name, why == "", strings.Join(not, " "), why})
	}
	return list
}

// pairs are the parameters, with the names that a call has for the chapter and the
// number of orders.
func (e *experiment) pairs(chapter, orders string) []string {
	p := []string{chapter, strconv.Itoa(e.Chapter.Number), "variant", e.Variant.Name, "bus", e.Bus.Name,
		"fault", e.Fault.Name, orders, strconv.Itoa(e.Orders)}
	if e.Seed != 0 {
		p = append(p, "seed", strconv.FormatUint(e.Seed, 10))
	}
	if e.Outage != 0 {
		p = append(p, "outage", e.OutageText())
	}
	return p
}

func (e *experiment) command() string {
	line := fmt.Sprintf("go run ./chapters run %d --variant %s --bus %s --fault %s --orders %d",
		e.Chapter.Number, e.Variant.Name, e.Bus.Name, e.Fault.Name, e.Orders)
	if e.Seed != 0 {
		line += " --seed " + strconv.FormatUint(e.Seed, 10)
	}
	if e.Outage != 0 {
		line += " --outage " + e.OutageText()
	}
	return line
}

// formParams are the parameters from which the form of a chapter's page starts.
func formParams() []param {
	return []param{text("variant"), text("bus"), text("fault"), number("orders"), seedParam(), text("outage"), text("run")}
}
