package browsertest

import (
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
)

// record is what the browser said about one tab.
type record struct {
	origin string

	mu       sync.Mutex
	where    string // the path that was opened last
	problems []string
	allowed  []*regexp.Regexp
	bytes    map[string]int // transferred, by request
	document string         // the request of the newest document
	stream   []int          // numbers of the events that streams brought
}

// see hears every event of the tab.
func (r *record) see(event any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch e := event.(type) {
	case *runtime.EventConsoleAPICalled:
		if e.Type == "error" || e.Type == "warning" || e.Type == "assert" {
			r.problem("console.%s: %s", e.Type, arguments(e.Args))
		}
	case *runtime.EventExceptionThrown:
		r.problem("exception: %s", exception(e.ExceptionDetails))
	case *log.EventEntryAdded:
		if e.Entry.Level == "error" || e.Entry.Source == "security" {
			r.problem("%s: %s %s", e.Entry.Source, e.Entry.Text, e.Entry.URL)
		}
	case *network.EventRequestWillBeSent:
		r.request(e)
	case *network.EventEventSourceMessageReceived:
		if n, err := strconv.Atoi(e.EventID); err == nil {
			r.stream = append(r.stream, n)
		}
	case *network.EventLoadingFinished:
		r.bytes[string(e.RequestID)] = int(e.EncodedDataLength)
	}
}

func (r *record) request(e *network.EventRequestWillBeSent) {
	if e.Type == network.ResourceTypeDocument {
		r.document = string(e.RequestID)
	}
	if u, err := url.Parse(e.Request.URL); err != nil || u.Scheme+"://"+u.Host != r.origin {
		r.problem("a request leaves the playground: %s %s", e.Request.Method, e.Request.URL)
	}
}

func (r *record) problem(format string, args ...any) {
	r.problems = append(r.problems, r.where+": "+fmt.Sprintf(format, args...))
}

func arguments(args []*runtime.RemoteObject) (s string) {
	for _, a := range args {
		s += " " + string(a.Value) + a.Description
	}
	return s
}

func exception(d *runtime.ExceptionDetails) string {
	if d.Exception != nil {
		return d.Text + " " + d.Exception.Description
	}
	return d.Text
}

// allow lets pass what the test causes itself, such as a connection that it cuts.
func (r *record) allow(pattern string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.allowed = append(r.allowed, regexp.MustCompile(pattern))
}

// at notes what is opened, for what the browser says next.
func (r *record) at(path string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.where = path
}

// forget starts a new count of what is transferred.
func (r *record) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.bytes)
}

// weight is what was transferred: the document, and all together.
func (r *record) weight() (document, total int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, n := range r.bytes {
		total += n
	}
	return r.bytes[r.document], total
}

// streamed lists the numbers of the events that streams have brought.
func (r *record) streamed() []int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.stream)
}

// judge fails the test for what the browser said and nobody allowed.
func (r *record) judge(t *testing.T) func() {
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, problem := range r.problems {
			if !r.mayBe(problem) {
				t.Error(problem)
			}
		}
	}
}

func (r *record) mayBe(problem string) bool {
	for _, a := range r.allowed {
		if a.MatchString(problem) {
			return true
		}
	}
	return false
}
