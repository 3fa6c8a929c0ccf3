package toy

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"

	"github.com/google/uuid"

	"outboxplayground/core/bus"
)

// Deliveries travel as lines of JSON in the answer of one long request. The
// server gives a message back to its group when that connection ends first.

// parcel is one delivery on the wire.
type parcel struct {
	Token   string // names the delivery in its settlement
	Message bus.Message
}

var errGone = errors.New("toy: the consumer is gone")
var errRefused = errors.New("toy: the handler failed")

// deliver serves one subscription.
func (s *Server) deliver(w http.ResponseWriter, r *http.Request) {
	w.WriteHeader(http.StatusOK)
	flush := http.NewResponseController(w).Flush
	if flush() != nil {
		return
	}
	q, lines := r.URL.Query(), json.NewEncoder(w)
	_ = s.store.Subscribe(r.Context(), q.Get("topic"), q.Get("group"),
		func(ctx context.Context, m bus.Message) error {
			token, verdict := s.expect()
			defer s.pending.Delete(token)
			if err := errors.Join(lines.Encode(parcel{token, m}), flush()); err != nil {
				return err
			}
			select {
			case ok := <-verdict:
				return map[bool]error{false: errRefused}[ok]
			case <-ctx.Done():
				return errGone
			}
		})
}

// expect makes a token whose settlement arrives on the channel.
func (s *Server) expect() (string, <-chan bool) {
	token, verdict := uuid.NewString(), make(chan bool, 1)
	s.pending.Store(token, verdict)
	return token, verdict
}

// settle takes a consumer's verdict; one on an unknown token comes too late.
func (s *Server) settle(_ http.ResponseWriter, r *http.Request) {
	verdict, known := s.pending.LoadAndDelete(r.FormValue("token"))
	if known {
		verdict.(chan bool) <- r.FormValue("ok") == "true"
	}
}

// Subscribe keeps a request open and makes a new one when it breaks.
func (c *Conn) Subscribe(ctx context.Context, topic, group string, h bus.Handler) error {
	ctx, cancel := c.join(ctx)
	defer cancel()
	for ctx.Err() == nil {
		_ = c.consume(ctx, topic, group, h)
		select {
		case <-ctx.Done():
		case <-c.retry(): // the server is away, or the line is cut
		}
	}
	return nil
}

// consume reads one connection to its end.
func (c *Conn) consume(ctx context.Context, topic, group string, h bus.Handler) error {
	where := url.Values{"topic": {c.cfg.Name(topic)}, "group": {group}}
	resp, err := c.request(ctx, c.reader, http.MethodGet, "/deliver?"+where.Encode(), nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	for lines := json.NewDecoder(resp.Body); ; {
		var p parcel
		if err := lines.Decode(&p); err != nil {
			return err
		}
		p.Message.Topic = topic
		if err := c.report(ctx, p.Token, h(ctx, p.Message)); err != nil {
			return err
		}
	}
}

// report is done on a context that survives the subscription, so that a message
// handled at the last moment is acknowledged.
func (c *Conn) report(ctx context.Context, token string, handled error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	v := url.Values{"token": {token}, "ok": {map[bool]string{true: "true"}[handled == nil]}}
	resp, err := c.request(ctx, c.reader, http.MethodPost, "/settle?"+v.Encode(), nil)
	if err != nil {
		return err
	}
	return resp.Body.Close()
}
