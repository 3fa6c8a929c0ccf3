package web

import (
	"html/template"
	"regexp"

	"github.com/gin-gonic/gin"

	"outboxplayground/core/audit"
	"outboxplayground/core/lab"
	"outboxplayground/core/web/page"
)

// sayN says how many there are of something: the key's own words take the number, those
// of key.one are for exactly one and take none.
func (s *server) sayN(c *gin.Context, key string, n int) template.HTML {
	if n == 1 {
		return s.say(c, key+".one")
	}
	return s.say(c, key, n)
}

// headline is a verdict in a sentence about people: what the worst outcome means to
// them. Worst first, as the smallest counterexample is chosen.
func (s *server) headline(c *gin.Context, r lab.Report) template.HTML {
	if r.Valid != audit.False {
		return s.say(c, "verdict.head."+string(r.Valid))
	}
	m := r.Measured
	for _, o := range []outcomeCount{{"lost", m.Lost}, {"phantom", m.Phantom}, {"duplicated", m.Duplicated}, {"stuck", m.Stuck}, {"reordered", m.Reordered}} {
		if o.N > 0 {
			return s.sayN(c, "verdict.head."+o.Word, o.N)
		}
	}
	return s.say(c, "verdict.head.false")
}

// faultWords says what the fault really did.
func (s *server) faultWords(c *gin.Context, f lab.FaultReport) template.HTML {
	if f.Name == "none" {
		return ""
	}
	words := page.Escaped(f.Name) + s.say(c, "verdict.colon")
	if f.FromOrder > 0 {
		words += s.struck(c, f) + s.say(c, "verdict.comma")
	}
	words += s.sayN(c, "verdict.fault.hits", f.Hits)
	if f.Network > 0 {
		words += s.say(c, "verdict.fault.network", f.Network, int(f.Ms))
	}
	return words + s.say(c, "verdict.stop")
}

// struck names the orders that a fault was about.
func (s *server) struck(c *gin.Context, f lab.FaultReport) template.HTML {
	if f.FromOrder == f.ToOrder {
		return s.say(c, "run.orders.one", f.FromOrder)
	}
	return s.say(c, "run.orders", f.FromOrder, f.ToOrder)
}

// cause is why an event came to its end: a sentence for people, the audit's reason,
// and what a driver said word for word. Only Why is always there.
type cause struct {
	Said template.HTML
	Why  string
	Raw  string
}

// The beginnings of the reasons that the lab gives for an event. A driver's own words
// may hold anything, a semicolon too, so the last mark counts.
var (
	publishFailed = regexp.MustCompile(`(?s)^(publish: (unavailable|rejected|ambiguous)\b.*, (before|after) COMMIT); (.*)$`)
	lastSeen      = regexp.MustCompile(`^last seen: (\S+) (killed )?at ([^;]+); (.*)$`)
)

func (s *server) causeOf(c *gin.Context, why string) cause {
	if m := publishFailed.FindStringSubmatch(why); m != nil {
		return cause{Said: s.say(c, "verdict.cause."+m[2]+"."+m[3]), Why: m[4], Raw: m[1]}
	}
	if m := lastSeen.FindStringSubmatch(why); m != nil {
		key := "verdict.cause.seen"
		if m[2] != "" {
			key = "verdict.cause.killed"
		}
		return cause{Said: s.say(c, key, m[1], m[3]), Why: m[4]}
	}
	return cause{Why: why}
}
