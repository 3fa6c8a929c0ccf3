package lab

import (
	"encoding/json"
	"testing"

	"outboxplayground/core/audit"
)

// Every figure that can be predicted is compared with the count that stands under the
// same name in the report.
func TestAPredictionIsComparedWithItsOwnFigure(t *testing.T) {
	measured := Report{Valid: audit.True, Late: 9, Measured: audit.Verdict{Orders: 99, Delivered: 1, Lost: 2, Duplicated: 3, Phantom: 4,
		Reordered: 5, Stuck: 6, Refused: 7, Pending: 8}}
	raw, err := json.Marshal(measured)
	if err != nil {
		t.Fatal(err)
	}
	var said struct {
		Measured map[string]int
		Late     int
	}
	if err := json.Unmarshal(raw, &said); err != nil {
		t.Fatal(err)
	}
	said.Measured["late"] = said.Late
	for i, figure := range Figures() {
		n := 100 + i
		r := measured
		r.Predicted = Spec{Predicted: &n, PredictedWhat: figure}.prediction()
		got, predicted, counted, ok := r.Prediction()
		if !ok || got != figure || predicted != n || counted != said.Measured[figure] || counted != i+1 {
			t.Errorf("%s: %q, predicted %d, counted %d, %v; the report says %d", figure, got, predicted, counted, ok, said.Measured[figure])
		}
	}
	if _, _, _, ok := measured.Prediction(); ok {
		t.Error("nothing was predicted")
	}
	one := 1
	if r := (Report{Predicted: Spec{Predicted: &one}.prediction()}); r.Predicted["delivered"] != 1 {
		t.Errorf("where no figure is named it is the delivered ones: %v", r.Predicted)
	}
}
