package web

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"

	"github.com/gin-gonic/gin"
)

// recovered turns a panic into a problem that tells nothing of the inside; the log
// has the rest.
func (s *server) recovered(c *gin.Context) {
	defer func() {
		r := recover()
		if r == nil {
			return
		}
		if err, ok := r.(error); ok && errors.Is(err, http.ErrAbortHandler) {
			panic(r)
		}
		s.opt.Log.Error("panic in a handler", "path", c.Request.URL.Path, "panic", r, "stack", string(debug.Stack()))
		if !c.Writer.Written() {
			fail(c, internal())
		}
		c.Abort()
	}()
	c.Next()
}

func internal() *problem {
	return newProblem(http.StatusInternalServerError, "internal", "something went wrong inside",
		"the log of the playground says what; please report it")
}

// secured puts on every answer the headers that keep a browser from guessing.
func secured(c *gin.Context) {
	h := c.Writer.Header()
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Security-Policy", "default-src 'self'")
	// A second policy: both are in force. It names what default-src does not cover.
	h.Add("Content-Security-Policy", "frame-ancestors 'none'; base-uri 'none'; form-action 'self'")
	// Not no-referrer, under which a form of our own has the Origin null.
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
}

// ownHost refuses a Host that is not ours. A page of another site can make its own
// name point to 127.0.0.1 (DNS rebinding); then only the Host header gives it away.
func (s *server) ownHost(c *gin.Context) {
	if !s.isOurs(c.Request.Host) {
		fail(c, newProblem(http.StatusForbidden, "foreign_host",
			fmt.Sprintf("this playground does not answer to the host %q", c.Request.Host),
			"use localhost or 127.0.0.1, or start it with serve --addr NAME:PORT"))
	}
}

func (s *server) isOurs(hostport string) bool {
	host, port := hostport, ""
	if h, p, err := net.SplitHostPort(hostport); err == nil {
		host, port = h, p
	} else {
		host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	}
	if _, err := strconv.ParseUint(port, 10, 16); port != "" && err != nil {
		return false
	}
	ours := append([]string{"localhost", "127.0.0.1", "::1"}, s.opt.Hosts...)
	return host != "" && slices.ContainsFunc(ours, func(h string) bool { return strings.EqualFold(h, host) })
}

// crossSite returns a problem when a browser says that another site is asking.
// Without both headers it is no browser, or an old one's plain navigation.
func crossSite(r *http.Request) *problem {
	foreign := func(by string) *problem {
		return newProblem(http.StatusForbidden, "cross_site", "a page of another site may not change anything here: "+by,
			"call it from the playground's own pages, or without a browser")
	}
	for _, site := range r.Header.Values("Sec-Fetch-Site") {
		if site != "same-origin" && site != "none" {
			return foreign(fmt.Sprintf("Sec-Fetch-Site is %q", site))
		}
	}
	for _, origin := range r.Header.Values("Origin") {
		u, err := url.Parse(origin)
		if err != nil || u.Scheme == "" || !strings.EqualFold(u.Host, r.Host) {
			return foreign(fmt.Sprintf("Origin is %q", origin))
		}
	}
	return nil
}
