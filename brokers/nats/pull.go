package nats

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	natsgo "github.com/nats-io/nats.go"
)

const (
	askTime = 5 * time.Second // the server answers a request by then, if only that there is nothing
	askMore = time.Second     // on the wire
)

// pull asks for as many messages as there is room for, again and again. It fails
// when the connection or the consumer is gone.
func (in *inbox) pull(ctx context.Context) error {
	for {
		n := in.reserve(ctx)
		if n == 0 {
			return nil
		}
		got, err := in.ask(ctx, n)
		for range n - got {
			<-in.room
		}
		if err != nil || ctx.Err() != nil {
			return err
		}
	}
}

// reserve waits for room and takes all there is.
func (in *inbox) reserve(ctx context.Context) (n int) {
	select {
	case in.room <- struct{}{}:
		n++
	case <-ctx.Done():
		return 0
	}
	for {
		select {
		case in.room <- struct{}{}:
			n++
		default:
			return n
		}
	}
}

// ask makes one request for n messages and takes what comes until it is over.
func (in *inbox) ask(ctx context.Context, n int) (got int, err error) {
	lost := in.bus.line.lost()
	if err := in.bus.ready(ctx); err != nil {
		return 0, err
	}
	request, err := json.Marshal(map[string]int64{"batch": int64(n), "expires": askTime.Nanoseconds()})
	if err == nil {
		err = in.bus.nc.PublishRequest(in.next, in.sub.Subject, request)
	}
	if err != nil {
		return 0, err
	}
	silence := time.NewTimer(askTime + askMore)
	defer silence.Stop()
	for got < n {
		select {
		case m := <-in.wire:
			over, err := in.sort(m)
			if over || err != nil {
				return got, err
			}
			got++
		case <-ctx.Done():
			return got, nil
		case <-lost:
			return got, errors.New("the connection was lost")
		case <-silence.C:
			return got, errors.New("the server does not answer a request for messages")
		}
	}
	return got, nil
}

// sort takes a message, or reads what the server says about the request.
func (in *inbox) sort(m *natsgo.Msg) (over bool, err error) {
	if m == nil {
		return true, errors.New("the subscription has ended")
	}
	switch s := status(m); s {
	case "":
		in.take(m)
		return false, nil
	case "404", "408": // nothing there, or not all that was asked for
		return true, nil
	default: // 503: no such consumer; 409: deleted, or the server shuts down
		return true, fmt.Errorf("no messages: %s %s", s, m.Header.Get("Description"))
	}
}

// status is empty for a message and a number for a remark of the server.
func status(m *natsgo.Msg) string {
	if len(m.Data) > 0 {
		return ""
	}
	return m.Header.Get("Status")
}
