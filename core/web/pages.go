package web

import (
	"bytes"
	"html/template"
	"net/http"
	"net/url"
	"strings"

	"github.com/gin-gonic/gin"

	"outboxplayground/core/web/page"
)

// The cookies. They hold what the switches stand at, and nothing that is secret.
const (
	langCookie      = "lang"
	themeCookie     = "theme"
	projectorCookie = "projector"
	cookieAge       = 365 * 24 * 60 * 60 // seconds
)

const serverKey = "server"

// faced lets everything behind it answer with pages, and remembers the language that
// a link names with ?lang=.
func (s *server) faced(c *gin.Context) {
	c.Set(serverKey, s)
	if asked := page.Lang(c.Query("lang")).Known(); asked != "" && wantsPage(c) && c.Request.Method == http.MethodGet {
		remember(c, langCookie, string(asked))
	}
}

// wantsPage tells whether a browser is asking, so that the answer should be a page.
func wantsPage(c *gin.Context) bool { return wanted(c.Request) == asHTML }

// show answers with a page.
func (s *server) show(c *gin.Context, status int, name string, v page.View) {
	var b bytes.Buffer
	if err := s.pages.Write(&b, name, readerOf(c), v); err != nil {
		s.opt.Log.Error("a page cannot be written", "page", name, "error", err)
		c.Abort()
		writeJSON(c, http.StatusInternalServerError, "application/problem+json", internal())
		return
	}
	c.Header("Vary", "Accept, Accept-Language, Cookie")
	c.Data(status, "text/html; charset=utf-8", b.Bytes())
}

// say is a sentence of the pages in the reader's language.
func (s *server) say(c *gin.Context, key string, args ...any) template.HTML {
	return s.pages.Say(readerOf(c).Lang, key, args...)
}

// readerOf says how the reader wants pages: ?lang= first, then what the switches
// stand at, then what the browser prefers.
func readerOf(c *gin.Context) page.Reader {
	r := page.Reader{Lang: page.Lang(c.Query("lang")).Known(), Here: c.Request.URL.RequestURI()}
	if r.Lang == "" {
		r.Lang = page.Lang(cookie(c, langCookie)).Known()
	}
	if r.Lang == "" {
		r.Lang = page.Match(c.GetHeader("Accept-Language"))
	}
	if theme := cookie(c, themeCookie); theme == "light" || theme == "dark" {
		r.Theme = theme
	}
	r.Projector = cookie(c, projectorCookie) == "1"
	return r
}

func cookie(c *gin.Context, name string) string {
	value, err := c.Cookie(name)
	if err != nil {
		return "" // there is none
	}
	return value
}

// remember sets a cookie; "" removes it.
func remember(c *gin.Context, name, value string) {
	age := cookieAge
	if value == "" {
		age = -1
	}
	http.SetCookie(c.Writer, &http.Cookie{Name: name, Value: value, Path: "/", MaxAge: age,
		HttpOnly: true, SameSite: http.SameSiteLaxMode})
}

func settingsParams() []param {
	return []param{text("lang"), text("theme"), text("view"), text("back")}
}

// settings remembers what a switch was set to and goes back to where it was.
func (s *server) settings(c *gin.Context) {
	in := inputOf(c)
	for name, f := range map[string]func(string) bool{
		"lang": func(v string) bool {
			remember(c, langCookie, v)
			return page.Lang(v).Known() != ""
		},
		"theme": func(v string) bool {
			remember(c, themeCookie, strings.TrimPrefix(v, "auto"))
			return v == "auto" || v == "light" || v == "dark"
		},
		"view": func(v string) bool {
			remember(c, projectorCookie, map[string]string{"projector": "1"}[v])
			return v == "projector" || v == "screen"
		},
	} {
		if v, given := in.str(name); given && !f(v) {
			c.Writer.Header().Del("Set-Cookie")
			fail(c, invalid(fieldError{name, "has no such value"}))
			return
		}
	}
	back, _ := in.str("back")
	seeOther(c, back)
}

// seeOther sends a browser that has changed something to a page of ours. Anything
// that is not the path of one leads to the contents.
func seeOther(c *gin.Context, to string) {
	if !isOwnPath(to) {
		to = "/"
	}
	c.Header("Location", to)
	c.Status(http.StatusSeeOther)
	c.Writer.WriteHeaderNow()
	c.Abort()
}

// isOwnPath refuses whatever a browser could take for another host: a scheme, //host,
// and /\host, which browsers read as //host.
func isOwnPath(to string) bool {
	u, err := url.Parse(to)
	return err == nil && u.Scheme == "" && u.Host == "" && u.User == nil &&
		strings.HasPrefix(to, "/") && !strings.HasPrefix(to, "//") && !strings.ContainsAny(to, "\\\r\n\t")
}

// back sends a browser to where its form stood, or else to the given page.
func back(c *gin.Context, otherwise string) {
	u, err := url.Parse(c.GetHeader("Referer"))
	if err == nil && strings.EqualFold(u.Host, c.Request.Host) && isOwnPath(u.RequestURI()) {
		otherwise = u.RequestURI()
	}
	if strings.HasPrefix(otherwise, "/chapters/") {
		otherwise += "#hands" // where the forms of a chapter's page stand
	}
	seeOther(c, otherwise)
}

// asset answers with a file that the pages load. Its address changes with its content.
func (s *server) asset(c *gin.Context) {
	content, kind, ok := s.pages.Asset(c.Param("build"), c.Param("name"))
	if !ok {
		fail(c, notFound(c.Request.URL.Path))
		return
	}
	c.Header("Cache-Control", "public, max-age=31536000, immutable")
	c.Data(http.StatusOK, kind, content)
}

// favicon is for browsers that ask without having been told.
func (s *server) favicon(c *gin.Context) {
	content, kind := s.pages.Favicon()
	c.Header("Cache-Control", "public, max-age=86400")
	c.Data(http.StatusOK, kind, content)
}
