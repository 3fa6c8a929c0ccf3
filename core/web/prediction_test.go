package web_test

import (
	"strings"
	"testing"
	"time"

	"outboxplayground/core/audit"
	"outboxplayground/core/lab"
)

// A chapter asks for the figure that its question is about, in the reader's language,
// and in the commands too; where it names none it is the delivered orders.
func TestAChapterAsksForItsOwnFigure(t *testing.T) {
	p := startMeasured(t)
	has(t, p.page("/chapters/6?fault=rollback", 200), "How many orders will get more than one email?", `name="predict_what" value="duplicated"`)
	has(t, p.page("/chapters/6?fault=rollback&lang=zh-TW", 200), "有幾筆訂單會收到不只一封信？")
	has(t, string(p.want(p.get("/play?ch=6&fault=rollback"), 200).body), "&predict=N&predict_what=duplicated", "--predict N --predict-what duplicated")
	body := p.page("/chapters/1", 200)
	has(t, body, "How many orders will get their email?", "An order with two emails counts once.")
	if strings.Contains(body, "predict_what") {
		t.Error("a figure is named where the usual one is meant")
	}
}

// What is predicted reaches the run, whichever way it is said.
func TestAPredictionIsTakenOver(t *testing.T) {
	p := startMeasured(t)
	const form = "application/x-www-form-urlencoded"
	for body, want := range map[string]struct {
		n    int
		what string
	}{
		"chapter=1&fault=rollback&predict=20":                        {20, ""},
		"chapter=1&fault=rollback&predict=2&predict_what=stuck":      {2, "stuck"},
		"chapter=1&fault=rollback&predict=3&predict_what=delivered":  {3, "delivered"},
		"chapter=1&fault=rollback&predict_what=stuck":                {-1, ""},
		`{"chapter":1,"fault":"rollback","predict":{"delivered":4}}`: {4, ""},
		`{"chapter":1,"fault":"rollback","predict":{"late":5}}`:      {5, "late"},
	} {
		kind := form
		if strings.HasPrefix(body, "{") {
			kind = "application/json"
		}
		ticket, ok := p.lab.Queue.Get(p.want(p.post("/runs", body, "Content-Type", kind), 202).text("id"))
		switch spec := ticket.Spec; {
		case !ok || (spec.Predicted == nil) != (want.n < 0):
			t.Errorf("%s: %+v", body, ticket)
		case spec.Predicted != nil && (*spec.Predicted != want.n || spec.PredictedWhat != want.what):
			t.Errorf("%s: %d %q", body, *spec.Predicted, spec.PredictedWhat)
		}
	}
	for _, body := range []string{`{"predict":{"orders":1}}`, `{"predict":1}`, `{"predict":{"late":1},"predict_what":"lost"}`, `{"predict_what":"orders"}`, `{"predict_what":7}`} {
		p.wantProblem(p.post("/runs", body), 422, "invalid_input")
	}
}

// The predicted figure stands beside the same figure as measured.
func TestAPredictedFigureBesideTheMeasuredOne(t *testing.T) {
	twice := lostRun("c0ffee0021")
	twice.Report = lab.Report{ID: "c0ffee0021", Valid: audit.False, Chapter: 6, Variant: "once", Bus: "inmemory", Mode: "memory",
		Predicted: map[string]int{"duplicated": 3}, Measured: audit.Verdict{Orders: 47, Delivered: 47, Duplicated: 1}, Declared: "ok", AsOf: time.Now(),
		Faults: []lab.FaultReport{{Name: "consumer-crash", FromOrder: 13, ToOrder: 13, Hits: 1}}}
	p := startMeasured(t, twice)
	for _, path := range []string{"/runs/c0ffee0021", "/chapters/6?run=c0ffee0021"} {
		has(t, p.page(path, 200), "<strong>3</strong> orders with more than one email", "<strong>1</strong> order with more than one email", "2 too many", "47 delivered")
	}
	has(t, p.page("/runs/c0ffee0021?lang=zh-TW", 200), "<strong>3</strong> 筆訂單收到不只一封信", "<strong>1</strong> 筆訂單收到不只一封信", "多了 2 筆")
	has(t, string(p.want(p.get("/runs/c0ffee0021.txt"), 200).body), "predicted  3 duplicated: 2 too many")
}
