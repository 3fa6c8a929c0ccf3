package web

import (
	"strconv"
	"strings"

	"github.com/gin-gonic/gin"
)

// How far a reader has come in a chapter.
const (
	opened = 'o'
	ran    = 'r' // at least one run was asked for
)

const progressCookie = "progress"

// progressOf reads how far the reader has come: o or r by chapter number. It is a
// string like 1r2o; whatever else stands in the cookie is ignored.
func progressOf(c *gin.Context) map[int]rune {
	come := map[int]rune{}
	number := 0
	for _, r := range cookie(c, progressCookie) {
		switch {
		case r >= '0' && r <= '9' && number < 100:
			number = number*10 + int(r-'0')
		case r == opened || r == ran:
			come[number] = r
			number = 0
		default:
			number = 0
		}
	}
	return come
}

// noteProgress remembers that the reader has come so far in a chapter.
func noteProgress(c *gin.Context, chapter int, far rune) {
	come := progressOf(c)
	if come[chapter] == ran || come[chapter] == far {
		return
	}
	come[chapter] = far
	var b strings.Builder
	for n := range maxChapters {
		if far, ok := come[n]; ok {
			b.WriteString(strconv.Itoa(n) + string(far))
		}
	}
	remember(c, progressCookie, b.String())
}

// maxChapters bounds what the cookie holds.
const maxChapters = 100

// follows tells whether the request comes from a reader of the pages, with or without
// a page as its answer: such a one has been given the cookie.
func follows(c *gin.Context) bool { return wantsPage(c) || cookie(c, progressCookie) != "" }
