package cdc

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// errUnheard ends the session of a connection that is dead without an error.
var errUnheard = errors.New("cdc: nothing came from the server for twice as long as it waits for a silent reader")

// silent tells whether the server has been waited for in vain for twice the term: report
// asks it to speak more often, and after one term it has given the slot free. Whoever
// waits on reads for as long as the operating system holds a dead connection to be
// alive, which can be hours.
func (s *stream) silent() bool {
	return s.waiting.Load() && time.Since(time.Unix(0, s.heard.Load())) > 2*s.term
}

// link is a connection that notes when something came. Bytes and not messages: a large
// one may be on its way for long.
type link struct {
	net.Conn
	heard *atomic.Int64
}

func (l link) Read(p []byte) (int, error) {
	n, err := l.Conn.Read(p)
	if n > 0 {
		l.heard.Store(time.Now().UnixNano())
	}
	return n, err
}

// listening makes the connections of dial ones that note it.
func listening(dial pgconn.DialFunc, heard *atomic.Int64) pgconn.DialFunc {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return link{c, heard}, nil
	}
}
