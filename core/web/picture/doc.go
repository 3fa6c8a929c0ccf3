// Package picture draws: the timeline of one event,
// predicted beside measured, and figures over time. Everything is SVG made from plain
// data, without scripts and without colours of its own: classes say what a mark means,
// the style sheet of the pages says how that looks in light and dark. A shape and a word
// are always beside the colour, and every picture has a title, a description, and its
// facts as data for the table or list that stands beside it.
package picture

// Say is a sentence of the pages in the reader's language, as plain text: escaping is
// done here. An unknown key is shown as it is.
type Say func(key string, args ...any) string
