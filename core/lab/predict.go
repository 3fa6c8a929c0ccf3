package lab

import "slices"

// Figures are the counts that a reader can predict, by the names that they have in a
// report. The first one is meant where none is named.
func Figures() []string {
	return []string{"delivered", "lost", "duplicated", "phantom", "reordered", "stuck", "refused", "pending", "late"}
}

// AskedFor is the figure that the chapter's question is about.
func (c Chapter) AskedFor() string {
	if c.Asks == "" {
		return Figures()[0]
	}
	return c.Asks
}

// prediction is what the report keeps of it; nil where nothing was predicted.
func (s Spec) prediction() map[string]int {
	switch {
	case s.Predicted == nil:
		return nil
	case s.PredictedWhat == "":
		return map[string]int{Figures()[0]: *s.Predicted}
	}
	return map[string]int{s.PredictedWhat: *s.Predicted}
}

// Prediction returns the figure that was predicted, how much of it, and how much was
// measured. ok is false where nothing was predicted.
func (r Report) Prediction() (figure string, predicted, measured int, ok bool) {
	m := r.Measured
	counts := []int{m.Delivered, m.Lost, m.Duplicated, m.Phantom, m.Reordered, m.Stuck, m.Refused, m.Pending, r.Late}
	for figure, predicted = range r.Predicted { // there is one
		if i := slices.Index(Figures(), figure); i >= 0 {
			return figure, predicted, counts[i], true
		}
	}
	return "", 0, 0, false
}
