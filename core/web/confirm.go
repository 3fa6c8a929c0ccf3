package web

import (
	"strconv"

	"github.com/gin-gonic/gin"
)

// doneParam names to a page what the form on it has just done.
const doneParam = "done"

// confirmed is what a person has just given back: one event, or so many at once. A page
// says so and leads to what becomes of it.
type confirmed struct {
	Chapter int
	EventID string // "" where it were many
	N       int64
}

// confirmedIn reads it from the address; nil where that says nothing that could be.
func confirmedIn(c *gin.Context, chapter int) *confirmed {
	done := c.Query(doneParam)
	if n, err := strconv.ParseInt(done, 10, 64); err == nil && n >= 0 {
		return &confirmed{Chapter: chapter, N: n}
	}
	if id, err := parseEventID(done); err == nil {
		return &confirmed{Chapter: chapter, EventID: id, N: 1}
	}
	return nil
}
