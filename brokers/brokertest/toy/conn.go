package toy

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"outboxplayground/core/bus"
)

var (
	_ bus.Bus        = (*Conn)(nil)
	_ bus.Topology   = (*Conn)(nil)
	_ bus.Backlogger = (*Conn)(nil)
)

// Conn is one client of a Server. It implements bus.Bus, bus.Topology and
// bus.Backlogger and is safe for concurrent use.
type Conn struct {
	cfg    bus.Config
	server *Server
	client *http.Client // publishes, each on a connection of its own
	reader *http.Client // for subscriptions; settles on connections that it keeps

	life context.Context // ends with Close; requests and subscriptions join it
	end  context.CancelFunc
}

// Open makes a client. It does not connect: each publish does.
func Open(s *Server, cfg bus.Config) *Conn {
	cfg = cfg.WithDefaults()
	life, end := context.WithCancel(context.Background())
	client := func(keep bool) *http.Client {
		return &http.Client{Transport: &http.Transport{DialContext: cfg.Dial, DisableKeepAlives: !keep}}
	}
	return &Conn{cfg: cfg, server: s, client: client(false), reader: client(true), life: life, end: end}
}

// Publish sends all messages in one request.
func (c *Conn) Publish(ctx context.Context, msgs ...bus.Message) error {
	if c.life.Err() != nil {
		return fmt.Errorf("toy: closed: %w", bus.ErrUnavailable)
	}
	ctx, cancel := c.join(ctx)
	defer cancel()
	sent := make([]bus.Message, len(msgs))
	for i, m := range msgs {
		m.Topic = c.cfg.Name(m.Topic)
		sent[i] = m
	}
	body, err := json.Marshal(sent)
	if err != nil {
		return err
	}
	return c.send(ctx, body, len(msgs))
}

func (c *Conn) send(ctx context.Context, body []byte, n int) error {
	resp, err := c.request(ctx, c.client, http.MethodPost, "/publish", body)
	if err != nil {
		return sendError(err)
	}
	defer resp.Body.Close()
	var answers []answer
	if err := json.NewDecoder(resp.Body).Decode(&answers); err != nil || len(answers) != n {
		return fmt.Errorf("toy: no answer: %w", err)
	}
	outcomes := make([]error, n)
	for i, a := range answers {
		outcomes[i] = a.err()
	}
	return bus.Join(outcomes)
}

func (c *Conn) request(ctx context.Context, client *http.Client, method, path string, body []byte) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, "http://"+c.server.address()+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	return client.Do(req)
}

const (
	patience   = 5 * time.Second       // for the settlement of a delivery
	retryAfter = 20 * time.Millisecond // when a subscription's connection broke
)

func (c *Conn) retry() <-chan time.Time { return time.After(retryAfter) }

// sendError: a failed dial sent nothing; any other failure may come too late.
func sendError(err error) error {
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "dial" {
		return fmt.Errorf("toy: %w: %w", bus.ErrUnavailable, err)
	}
	return fmt.Errorf("toy: %w", err)
}

func (a answer) err() error {
	switch a.Class {
	case "":
		return nil
	case bus.Unavailable.String():
		return fmt.Errorf("%w: %s", bus.ErrUnavailable, a.Text)
	case bus.Rejected.String():
		return fmt.Errorf("%w: %s", bus.ErrRejected, a.Text)
	default:
		return errors.New(a.Text)
	}
}

// join ends ctx with the life of the connection too.
func (c *Conn) join(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(c.life, cancel)
	return ctx, func() { stop(); cancel() }
}

// Prepare implements bus.Topology.
func (c *Conn) Prepare(ctx context.Context, topic string, groups ...string) error {
	return c.server.store.Prepare(ctx, c.cfg.Name(topic), groups...)
}

// Remove implements bus.Topology.
func (c *Conn) Remove(ctx context.Context, topic string, groups ...string) error {
	return c.server.store.Remove(ctx, c.cfg.Name(topic), groups...)
}

// Backlog implements bus.Backlogger.
func (c *Conn) Backlog(ctx context.Context, topic, group string) (int64, error) {
	return c.server.store.Backlog(ctx, c.cfg.Name(topic), group)
}

// Close ends the requests and subscriptions of this client.
func (c *Conn) Close() error {
	c.end()
	c.reader.CloseIdleConnections()
	return nil
}
