package servers

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// probeLimit bounds one question to a server.
const probeLimit = 3 * time.Second

// Probe talks to the server at the URL in its own protocol, just enough to know
// that it serves, and returns the version that the server tells. Kafka tells only
// the level of its metadata ("metadata.version 27" is 4.1), and not every one;
// the version is empty then. Errors do not carry the URL's password.
func Probe(ctx context.Context, name, rawURL string) (version string, err error) {
	ctx, cancel := context.WithTimeout(ctx, probeLimit)
	defer cancel()
	switch name {
	case "postgres":
		return probePostgres(ctx, rawURL)
	case "rabbitmq":
		return probeAMQP(ctx, rawURL)
	case "kafka":
		return probeKafka(ctx, rawURL)
	case "nats":
		return probeNATS(ctx, rawURL)
	case "redis":
		return probeRedis(ctx, rawURL)
	}
	return "", fmt.Errorf("servers: no server is called %q", name)
}

func probePostgres(ctx context.Context, rawURL string) (version string, err error) {
	conn, err := pgx.Connect(ctx, rawURL)
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	err = conn.QueryRow(ctx, "SHOW server_version").Scan(&version)
	return version, err
}

// dial connects to the host of the URL and bounds everything that follows.
func dial(ctx context.Context, rawURL, defaultPort string) (net.Conn, *url.URL, error) {
	u, err := url.Parse(rawURL)
	if err != nil {
		return nil, nil, errors.New("not a URL") // url.Error would quote the password
	}
	port := u.Port()
	if port == "" {
		port = defaultPort
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", net.JoinHostPort(u.Hostname(), port))
	if err != nil {
		return nil, nil, err
	}
	if u.Scheme == "amqps" || u.Scheme == "rediss" {
		conn = tls.Client(conn, &tls.Config{ServerName: u.Hostname()})
	}
	deadline, _ := ctx.Deadline()
	return conn, u, conn.SetDeadline(deadline)
}

// probeNATS reads the INFO line with which every NATS server greets.
func probeNATS(ctx context.Context, rawURL string) (string, error) {
	first, _, _ := strings.Cut(rawURL, ",")
	conn, _, err := dial(ctx, first, "4222")
	if err != nil {
		return "", err
	}
	defer conn.Close()
	line, err := bufio.NewReader(io.LimitReader(conn, 64<<10)).ReadString('\n')
	if err != nil {
		return "", err
	}
	var info struct {
		Version   string
		JetStream bool
	}
	body, ok := strings.CutPrefix(line, "INFO ")
	if !ok {
		return "", errors.New("the server does not greet like NATS")
	}
	if err := json.Unmarshal([]byte(body), &info); err != nil {
		return "", err
	}
	if !info.JetStream {
		return info.Version, errors.New("JetStream is off")
	}
	return info.Version, nil
}
