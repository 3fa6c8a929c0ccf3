// Package brokertest judges a bus: one conformance suite for every driver, the
// five of this project and your own. A driver's own test is a constructor and
// the facts that it declares about itself:
//
//	func TestConformance(t *testing.T) {
//		brokertest.Run(t, brokertest.Harness{
//			Name: "mybus",
//			Mode: "real",
//			Open: func(ctx context.Context, c bus.Config) (bus.Bus, error) {
//				c.URL = os.Getenv("MYBUS_URL")
//				return mybus.Open(ctx, c, mybus.Options{})
//			},
//		}, brokertest.Features{
//			Ordered:          brokertest.PerKey,
//			RedeliveryWithin: 5 * time.Second,
//			Oversized:        32 << 20,
//			Networked:        true,
//		})
//	}
//
// (Return a nil interface with an error, not a typed nil.) Each check works on
// topics with a fresh random prefix and removes them afterwards. A failure names
// the rule that was broken and the smallest counterexample: the id of a message,
// or a few.
//
// How it judges: everything published and everything delivered goes through a
// ledger outside the bus, and one verdict over that ledger finds what was lost,
// duplicated, mangled, reordered, or delivered although the publisher was told
// that it never would be. The checks only differ in what they do to the bus
// meanwhile. The suite itself is tested on buses that are broken on purpose: see
// the package brokers/brokertest/broken.
package brokertest
