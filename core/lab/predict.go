package lab

// figure is a count that a reader can predict, by the name that it has in a report.
type figure struct {
	name string
	of   func(Report) int
}

func figures() []figure {
	return []figure{
		{"delivered", func(r Report) int { return r.Measured.Delivered }},
		{"lost", func(r Report) int { return r.Measured.Lost }},
		{"duplicated", func(r Report) int { return r.Measured.Duplicated }},
		{"phantom", func(r Report) int { return r.Measured.Phantom }},
		{"reordered", func(r Report) int { return r.Measured.Reordered }},
		{"stuck", func(r Report) int { return r.Measured.Stuck }},
		{"refused", func(r Report) int { return r.Measured.Refused }},
		{"pending", func(r Report) int { return r.Measured.Pending }},
		{"late", func(r Report) int { return r.Late }},
	}
}

// Figures are the names of the counts that a reader can predict. The first one is meant
// where none is named.
func Figures() (names []string) {
	for _, f := range figures() {
		names = append(names, f.name)
	}
	return names
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

// Prediction returns the name of the figure that was predicted, how much of it, and how much was
// measured. ok is false where nothing was predicted.
func (r Report) Prediction() (name string, predicted, measured int, ok bool) {
	for _, f := range figures() {
		if predicted, ok = r.Predicted[f.name]; ok { // there is one
			return f.name, predicted, f.of(r), true
		}
	}
	return "", 0, 0, false
}
