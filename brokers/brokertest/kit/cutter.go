package kit

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"
)

// Cutter is a dial hook whose connections can be cut and refused. They are the
// sockets themselves, where package wire's are pipes. The zero value lets everything
// through. Safe for concurrent use.
type Cutter struct {
	mu     sync.Mutex
	refuse bool
	conns  []net.Conn
}

// Dial opens a connection; it is a bus.DialFunc.
func (c *Cutter) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.refuse {
		return nil, fmt.Errorf("dial %s: refused by the test", addr)
	}
	conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, network, addr)
	if err == nil {
		c.conns = append(c.conns, conn)
	}
	return conn, err
}

// Cut closes every connection; new ones are refused or not.
func (c *Cutter) Cut(refuse bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refuse = refuse
	for _, conn := range c.conns {
		conn.Close()
	}
	c.conns = nil
}
