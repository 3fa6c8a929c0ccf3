package nats

import (
	"context"
	"errors"
	"math"
	"net/url"
	"strings"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// connect starts the client and waits for its first attempt to connect.
func (b *Bus) connect(ctx context.Context, servers string) error {
	ctx, cancel := context.WithTimeout(ctx, firstAttempt)
	defer cancel()
	unhook := context.AfterFunc(ctx, b.line.abort)
	nc, err := natsgo.Connect(servers, b.line.options()...)
	unhook()
	if err != nil {
		return errors.New("nats: the client does not take this configuration")
	}
	b.nc = nc
	// The window of Publish bounds what is pending; a limit here would make the
	// client wait where no context can interrupt it.
	b.js, err = jetstream.New(nc, jetstream.WithPublishAsyncMaxPending(math.MaxInt32))
	if err == nil && nc.IsConnected() {
		select {
		case <-b.line.first:
		case <-ctx.Done():
		}
	}
	return err
}

// options make a client that connects for ever and keeps nothing to be sent later.
func (l *line) options() []natsgo.Option {
	lost := func(_ *natsgo.Conn, err error) {
		if err == nil {
			err = errors.New("disconnected")
		}
		l.set(false, err)
	}
	made := func(nc *natsgo.Conn) { l.set(nc.IsConnected(), errors.New("disconnected")) }
	return []natsgo.Option{
		natsgo.SetCustomDialer(l), natsgo.SkipHostLookup(), natsgo.Timeout(dialTime), natsgo.FlusherTimeout(writeTime),
		natsgo.RetryOnFailedConnect(true), natsgo.MaxReconnects(-1), natsgo.IgnoreAuthErrorAbort(),
		natsgo.ReconnectWait(redialPause), natsgo.ReconnectJitter(0, 0), natsgo.ReconnectBufSize(-1),
		natsgo.PingInterval(pingEvery), natsgo.MaxPingsOutstanding(2),
		natsgo.ConnectHandler(made), natsgo.ReconnectHandler(made), natsgo.DisconnectErrHandler(lost), natsgo.ReconnectErrHandler(lost),
		natsgo.ErrorHandler(func(*natsgo.Conn, *natsgo.Subscription, error) {}),
		natsgo.ClosedHandler(func(*natsgo.Conn) { close(l.ended) }),
	}
}

// checkURL quotes nothing of the URL, which may hold a password.
func checkURL(servers string) error {
	for _, one := range strings.Split(servers, ",") {
		u, err := url.Parse(strings.TrimSpace(one))
		if err != nil || u.Host == "" || u.Scheme != "nats" && u.Scheme != "tls" {
			return errors.New("nats: the URL is not of the form nats://host:port")
		}
	}
	return nil
}
