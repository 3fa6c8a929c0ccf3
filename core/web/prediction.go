package web

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"outboxplayground/core/lab"
)

// guess is a prediction of another figure than the delivered ones.
type guess struct {
	figure string
	n      int64
}

// prediction reads {"delivered": 20}, or another figure of a report in its place.
func prediction(raw []byte) (any, error) {
	var p map[string]*int64
	if json.Unmarshal(raw, &p) == nil && len(p) == 1 {
		for figure, n := range p {
			switch {
			case !slices.Contains(lab.Figures(), figure) || n == nil || *n < 0:
			case figure == lab.Figures()[0]:
				return *n, nil
			default:
				return guess{figure, *n}, nil
			}
		}
	}
	return nil, fmt.Errorf(`must be an object like {"delivered": 20}, with one of %s`, strings.Join(lab.Figures(), ", "))
}

// figureParam says which figure the number of a form predicts. Without a number it
// says nothing: a form sends it along in any case.
func figureParam() param {
	read := func(s string) (any, error) {
		if !slices.Contains(lab.Figures(), s) {
			return nil, fmt.Errorf("must be one of %s", strings.Join(lab.Figures(), ", "))
		}
		return s, nil
	}
	return param{"predict_what", single(read), func(raw []byte) (any, error) {
		s, err := jsonString(raw)
		if err != nil {
			return nil, err
		}
		return read(s.(string))
	}}
}

// predict takes over what the reader expects.
func predict(spec *lab.Spec, in input) *problem {
	what, named := in.str("predict_what")
	switch p := in["predict"].(type) {
	case int64:
		n := int(p)
		spec.Predicted, spec.PredictedWhat = &n, what
	case guess:
		if named && what != p.figure {
			return invalid(fieldError{"predict_what", "predict names another figure"})
		}
		n := int(p.n)
		spec.Predicted, spec.PredictedWhat = &n, p.figure
	}
	return nil
}

// predicted is what was expected beside what was measured, for the template "verdict".
type predicted struct {
	Figure     string
	N          int
	Measured   int
	Gap, Short int // Gap: how many too many; Short: the other way round
}

// predictedIn is nil where nothing was predicted.
func predictedIn(r lab.Report) *predicted {
	figure, n, measured, ok := r.Prediction()
	if !ok {
		return nil
	}
	return &predicted{Figure: figure, N: n, Measured: measured, Gap: n - measured, Short: measured - n}
}

// Delivered tells whether it is the figure that the strips of shapes show.
func (p predicted) Delivered() bool { return p.Figure == lab.Figures()[0] }

// Words is the key of what there are so many of.
func (p predicted) Words(n int) string {
	if n == 1 {
		return "predict.got." + p.Figure + ".one"
	}
	return "predict.got." + p.Figure
}
