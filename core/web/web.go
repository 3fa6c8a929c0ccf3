// Package web is the playground over HTTP: the article's calls and our own, and
// nothing but HTTP. Requests are judged strictly before anything happens, answers
// come as JSON, as aligned text or as a page, errors as problem documents (RFC 9457)
// or as a page too: the same address, and Accept decides.
package web

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

	"outboxplayground/core/lab"
	"outboxplayground/core/web/page"
)

// Options are what the web needs besides the chapters.
type Options struct {
	// Hosts may be named in a request's Host header besides localhost, 127.0.0.1
	// and [::1], each without a port: the host of the address that is listened on.
	Hosts []string
	// Log is told about requests that failed inside. Default: discarded.
	Log *slog.Logger
	// Now is the clock of as_of. Default: time.Now.
	Now func() time.Time
	// Race runs count orders the naive way and through the outbox under the same
	// outage of a bus and returns when both are over. Nil: the call answers 503.
	Race func(ctx context.Context, count int, bus string) (RaceResult, error)
	// Stopping is closed when the process is about to end: streams end then. Nil: never.
	Stopping <-chan struct{}
	// Lab makes runs and keeps their results. Nil: the calls about runs answer 503.
	Lab *Lab
	// Claims are the article's, to be judged by what was measured. Nil: there are none.
	Claims []lab.Claim
	// Sampler remembers how the figures have moved. Nil: the metrics have no charts.
	Sampler *Sampler
}

// server is what the handlers share. It is not changed after New.
type server struct {
	live   *lab.Live
	opt    Options
	racing chan struct{} // holds a token while a race runs
	routes []route
	pages  *page.Pages
	found  *findings
}

// New returns the handler of the whole API. It is safe for concurrent use and
// starts nothing of its own; live has to outlive it.
func New(live *lab.Live, o Options) http.Handler {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	pages, err := page.New()
	if err != nil {
		panic(err) // our own files, compiled in; a test reads them
	}
	s := &server{live: live, opt: o, racing: make(chan struct{}, 1), pages: pages,
		found: &findings{by: map[string]lab.Finding{}}}
	s.routes = s.table()
	return withTextSuffix(s.engine())
}

func (s *server) engine() *gin.Engine {
	gin.SetMode(gin.ReleaseMode)
	e := gin.New()
	e.HandleMethodNotAllowed = true
	e.RedirectTrailingSlash = false
	e.Use(s.recovered, secured, s.faced, s.ownHost)
	for _, r := range s.routes {
		handlers := []gin.HandlerFunc{s.accept(r), r.handle}
		e.Handle(r.method, r.path, handlers...)
		if r.method == http.MethodGet && !r.changes {
			e.Handle(http.MethodHead, r.path, handlers...)
		}
	}
	e.NoRoute(func(c *gin.Context) { fail(c, notFound(c.Request.URL.Path)) })
	e.NoMethod(func(c *gin.Context) { fail(c, methodNotAllowed(c)) })
	return e
}
