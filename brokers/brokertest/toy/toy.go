// Package toy is a broker for testing the conformance suite itself: a server on a
// loopback port that keeps its messages in memory, and can be crashed and started
// again. It stands in for no real broker and is not one of the five.
//
// A publish is one HTTP request, a subscription a long one, and each makes its
// connection with the configured dial function: so the fault proxy and a crash
// hit them as they hit a real client.
package toy

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"sync"

	"outboxplayground/brokers/inmemory"
	"outboxplayground/core/bus"
)

// Server is the broker. The zero value is not usable: see Start.
type Server struct {
	addr  string
	store *inmemory.Bus // what survives a crash

	mu   sync.Mutex
	http *http.Server // nil while crashed
	done chan struct{}

	pending sync.Map // token of a delivery to the chan bool that settles it
}

// MaxBytes is the largest payload that the server takes.
const MaxBytes = 1 << 20

// Start runs a server on a free port until Stop.
func Start(ctx context.Context) (*Server, error) {
	store, err := inmemory.Open(ctx, bus.Config{}, inmemory.Options{Capacity: 100_000, MaxBytes: MaxBytes})
	if err != nil {
		return nil, err
	}
	s := &Server{addr: "127.0.0.1:0", store: store}
	return s, s.Restart(ctx)
}

// Restart listens again, on the same port, with what was stored before.
func (s *Server) Restart(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.addr)
	if err != nil {
		return err
	}
	s.addr = l.Addr().String()
	s.http, s.done = &http.Server{Handler: s.routes()}, make(chan struct{})
	go func(h *http.Server, done chan struct{}) {
		defer close(done)
		_ = h.Serve(l) // http.ErrServerClosed, always
	}(s.http, s.done)
	return nil
}

func (s *Server) address() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.addr
}

func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /publish", s.publish)
	mux.HandleFunc("GET /deliver", s.deliver)
	mux.HandleFunc("POST /settle", s.settle)
	return mux
}

// Crash closes the port and every connection without finishing anything.
func (s *Server) Crash(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.http == nil {
		return errors.New("toy: already dead")
	}
	err := s.http.Close()
	<-s.done
	s.http = nil
	return err
}

// Stop ends the server for good.
func (s *Server) Stop() error {
	return errors.Join(s.Crash(context.Background()), s.store.Close())
}

// answer is the fate of one message on the wire.
type answer struct{ Class, Text string }

// publish stores the messages of a request and answers for each.
func (s *Server) publish(w http.ResponseWriter, r *http.Request) {
	var msgs []bus.Message
	if err := json.NewDecoder(r.Body).Decode(&msgs); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	// Once read, the request is carried out, whether or not its client waits.
	err := s.store.Publish(context.WithoutCancel(r.Context()), msgs...)
	answers := make([]answer, len(msgs))
	for i := range msgs {
		if out := bus.Outcome(err, i); out != nil {
			answers[i] = answer{Class: bus.Classify(out).String(), Text: out.Error()}
		}
	}
	_ = json.NewEncoder(w).Encode(answers)
}
