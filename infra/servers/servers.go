// Package servers starts private servers: PostgreSQL, RabbitMQ, Kafka, NATS and
// Redis, each in the best form that this machine has to offer. The playground
// uses it when no URL names a server, the tests use it for servers that they
// may kill. It imports nothing of this project.
//
// Every server listens on 127.0.0.1 alone, on a port of its own, writes its
// output to a log file in its directory and ends with this process, even when
// this process is killed.
package servers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// The modes of a server: what stands behind its address.
const (
	Real     = "real"     // its own server process
	Embedded = "embedded" // the real server, inside our process
	Fake     = "fake"     // a double that speaks the protocol, inside our process
	Off      = "off"      // not there
)

// Names lists the servers that Start knows.
func Names() []string { return []string{"postgres", "rabbitmq", "kafka", "nats", "redis"} }

// Options say how a server shall be started. The zero value is usable.
type Options struct {
	// Dir keeps the server's data and its log, and is kept by Stop. Empty means a
	// temporary directory, removed by Stop.
	Dir string
	// Form asks for Real, Embedded or Fake. Empty is the best form at hand.
	Form string
	// Port is the TCP port on 127.0.0.1. Zero takes a free one.
	Port int
	// NoSync lets PostgreSQL answer before the disk has the data (fsync off). What
	// was committed still survives the death of the server, though not that of the
	// machine. It makes tests faster.
	NoSync bool
}

// Server is a running private server. Its methods may be called from several
// goroutines; Kill, Restart and Stop run one at a time.
type Server struct {
	Name    string        // one of Names
	URL     string        // in the client's own form; Kafka's is host:port. May hold a password: print Place
	Mode    string        // Real, Embedded or Fake
	Version string        // as told by the server itself; of a double, the library's
	Note    string        // what this form does not model, or how to look inside
	Dir     string        // where its data and its log are
	Took    time.Duration // from the call of Start to the first answer

	mu     sync.Mutex
	engine engine
	temp   *tempDir
}

// engine runs one server. Its calls never overlap.
type engine interface {
	// start runs the server on the port and the data chosen before and returns
	// when it answers.
	start(ctx context.Context) error
	// kill ends it as abruptly as can be.
	kill() error
	// stop ends it gracefully, by force when ctx ends.
	stop(ctx context.Context) error
	// pid is the process of the server, ours if it runs inside.
	pid() int
}

// site is what a launcher has to work with.
type site struct {
	Options
	dir  string
	port int
}

// plan is what a launcher decided.
type plan struct {
	url, mode, note string
	version         string // when the server cannot be asked
	engine          engine
}

type launcher func(ctx context.Context, s site) (plan, error)

func launcherOf(name string) (launcher, error) {
	switch name {
	case "postgres":
		return postgres, nil
	case "rabbitmq":
		return rabbitmq, nil
	case "kafka":
		return kafka, nil
	case "nats":
		return nats, nil
	case "redis":
		return redis, nil
	}
	return nil, fmt.Errorf("servers: no server is called %q; there are %v", name, Names())
}

// Start starts a server and returns when it answers. A *Missing error says that
// this machine does not have it, and how to get it. Any other error carries the
// end of the server's log.
func Start(ctx context.Context, name string, o Options) (*Server, error) {
	begun := time.Now()
	launch, err := launcherOf(name)
	if err != nil {
		return nil, err
	}
	s := &Server{Name: name, Dir: o.Dir}
	if err := s.prepareDir(); err != nil {
		return nil, err
	}
	if err := s.launch(ctx, launch, o); err != nil {
		return nil, errors.Join(err, s.temp.remove())
	}
	s.Took = time.Since(begun)
	return s, nil
}

func (s *Server) prepareDir() (err error) {
	if s.Dir == "" {
		s.temp, err = newTempDir(s.Name)
		if err == nil {
			s.Dir = s.temp.path
		}
		return err
	}
	if s.Dir, err = filepath.Abs(s.Dir); err != nil {
		return err
	}
	return os.MkdirAll(s.Dir, 0o755)
}

func (s *Server) launch(ctx context.Context, launch launcher, o Options) error {
	port, err := choosePort(o.Port)
	if err != nil {
		return err
	}
	p, err := launch(ctx, site{Options: o, dir: s.Dir, port: port})
	if err != nil {
		return err
	}
	s.URL, s.Mode, s.Note, s.Version, s.engine = p.url, p.mode, p.note, p.version, p.engine
	if err := s.engine.start(ctx); err != nil {
		return fmt.Errorf("servers: starting %s: %w", s.Name, err)
	}
	if s.Version != "" {
		return nil
	}
	s.Version, err = Probe(ctx, s.Name, s.URL)
	if err != nil {
		return errors.Join(fmt.Errorf("servers: asking %s for its version: %w", s.Name, err), s.engine.kill())
	}
	return nil
}

// PID is the process that serves; for an embedded server or a double it is our own.
func (s *Server) PID() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.engine.pid()
}

// Kill ends the server like a crash: SIGKILL for a process of its own, all that
// it started included. A server inside our process is closed with its
// connections, without a farewell to its clients; what it holds in files (NATS,
// Kafka's double) or in memory (Redis' double) is still there at Restart, so it
// cannot show what a real crash loses.
//
// RabbitMQ (seen on 3.10.8) writes its register of quorum queues up to a second
// after it has confirmed the declaration: a queue younger than that does not
// answer after Kill and Restart, whatever it had confirmed. An older one keeps all.
func (s *Server) Kill() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.engine.kill()
}

// Restart starts the server again, at the same address with the same data, and
// returns when it answers. One that still runs is killed first.
func (s *Server) Restart(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.engine.kill(); err != nil {
		return err
	}
	if err := s.engine.start(ctx); err != nil {
		return fmt.Errorf("servers: restarting %s: %w", s.Name, err)
	}
	return nil
}

// stopLimit bounds a graceful stop when the caller's context does not.
const stopLimit = 10 * time.Second

// Stop ends the server gracefully, by force when ctx ends or after ten seconds,
// and removes its directory if that was a temporary one. Stopping twice is fine.
func (s *Server) Stop(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, stopLimit)
	defer cancel()
	err := s.engine.stop(ctx)
	return errors.Join(err, s.temp.remove())
}

// Place is where the server is, without a password: fit to be printed.
func (s *Server) Place() string { return Redact(s.URL) }
