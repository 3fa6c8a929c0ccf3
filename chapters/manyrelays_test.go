package main

import (
	"fmt"
	"testing"

	"outboxplayground/brokers"
	"outboxplayground/core/audit"
	"outboxplayground/core/lab"
)

// Two relays under a burst of orders: with leases none is sent twice, with the article's
// worker some are (NATS recognises them). The matrix has it with 47.
func TestTwoRelaysUnderABurst(t *testing.T) {
	if !full() {
		t.Skip("eight runs of 2,000 orders take minutes: ./infra/test full")
	}
	orders, buses := lab.MaxOrders, brokers.Names()[:4]
	b := newBench(t, buses...)
	for _, name := range buses {
		for chapter, twice := range map[int]bool{3: name != brokers.NATS, 5: false} {
			t.Run(fmt.Sprintf("%d/%s", chapter, name), func(t *testing.T) {
				res := b.run(t, lab.Spec{Chapter: chapter, Bus: name, Fault: "two-relays", Orders: orders})
				v := res.Report.Measured
				if v.Orders != orders || v.Delivered != orders || (v.Duplicated > 0) != twice {
					t.Errorf("chapter %d: duplicated wanted: %t\n%s", chapter, twice, explain(res))
				}
				if twice && res.Report.Valid != audit.False {
					t.Errorf("valid %s", res.Report.Valid)
				}
			})
		}
	}
}
