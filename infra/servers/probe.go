package servers

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// probeLimit bounds one question to a server.
const probeLimit = 3 * time.Second

// Probe talks to the server at the URL in its own protocol, just enough to know
// that it serves, and returns the version that the server tells. Kafka tells
// none: its version is empty. Errors do not carry the URL's password.
func Probe(ctx context.Context, name, rawURL string) (version string, err error) {
	ctx, cancel := context.WithTimeout(ctx, probeLimit)
	defer cancel()
	switch name {
	case "postgres":
		return probePostgres(ctx, rawURL)
	case "rabbitmq":
		return probeAMQP(ctx, rawURL)
	case "kafka":
		return "", probeKafka(ctx, rawURL)
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

// probeAMQP opens an AMQP 0-9-1 connection as far as the server's first frame,
// connection.start, whose properties hold the version.
func probeAMQP(ctx context.Context, rawURL string) (string, error) {
	conn, _, err := dial(ctx, rawURL, "5672")
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if _, err := conn.Write([]byte("AMQP\x00\x00\x09\x01")); err != nil {
		return "", err
	}
	var head struct {
		Type    uint8
		Channel uint16
		Size    uint32
	}
	if err := binary.Read(conn, binary.BigEndian, &head); err != nil {
		return "", err
	}
	if head.Type != 1 || head.Size > 64<<10 {
		return "", errors.New("the server does not greet like AMQP 0-9-1")
	}
	frame := make([]byte, head.Size)
	if _, err := io.ReadFull(conn, frame); err != nil {
		return "", err
	}
	_, rest, _ := bytes.Cut(frame, []byte("\x07versionS")) // a table entry: short string, 'S', long string
	if len(rest) < 4 {
		return "", nil
	}
	n := int(binary.BigEndian.Uint32(rest))
	if n > len(rest)-4 {
		return "", nil
	}
	return string(rest[4 : 4+n]), nil
}

// probeKafka asks the brokers for ApiVersions (key 18, version 0), which a
// broker answers from the moment it processes requests. One answer will do.
func probeKafka(ctx context.Context, brokers string) error {
	var errs []error
	for addr := range strings.SplitSeq(brokers, ",") {
		err := askKafka(ctx, strings.TrimSpace(addr))
		if err == nil {
			return nil
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func askKafka(ctx context.Context, addr string) error {
	conn, _, err := dial(ctx, "kafka://"+addr, "9092")
	if err != nil {
		return err
	}
	defer conn.Close()
	const request = "\x00\x00\x00\x0e" + "\x00\x12" + "\x00\x00" + "\x00\x00\x00\x07" + "\x00\x04" + "test"
	if _, err := io.WriteString(conn, request); err != nil {
		return err
	}
	var head struct {
		Size, Correlation int32
		Code              int16
	}
	if err := binary.Read(conn, binary.BigEndian, &head); err != nil {
		return err
	}
	if head.Correlation != 7 || head.Code != 0 {
		return fmt.Errorf("the server does not answer like Kafka (error code %d)", head.Code)
	}
	return nil
}

// probeRedis asks for INFO, and for PING where INFO is not known.
func probeRedis(ctx context.Context, rawURL string) (string, error) {
	conn, u, err := dial(ctx, rawURL, "6379")
	if err != nil {
		return "", err
	}
	defer conn.Close()
	r := bufio.NewReader(conn)
	if pw, ok := u.User.Password(); ok {
		words := []string{"AUTH", pw}
		if name := u.User.Username(); name != "" {
			words = []string{"AUTH", name, pw}
		}
		if _, err := askRedis(conn, r, words...); err != nil {
			return "", err
		}
	}
	if info, err := askRedis(conn, r, "INFO", "server"); err == nil {
		return redisVersion(info), nil
	}
	_, err = askRedis(conn, r, "PING")
	return "", err
}

func redisVersion(info string) string {
	fields := map[string]string{}
	for line := range strings.Lines(info) {
		k, v, _ := strings.Cut(strings.TrimSpace(line), ":")
		fields[k] = v
	}
	if v := fields["valkey_version"]; v != "" {
		return "valkey " + v
	}
	return fields["redis_version"]
}

// askRedis sends one command in RESP and returns a simple or a bulk string.
func askRedis(w io.Writer, r *bufio.Reader, words ...string) (string, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(words))
	for _, word := range words {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(word), word)
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return "", err
	}
	line, err := r.ReadString('\n')
	line = strings.TrimRight(line, "\r\n")
	switch {
	case err != nil:
		return "", err
	case strings.HasPrefix(line, "+"):
		return line[1:], nil
	case !strings.HasPrefix(line, "$"):
		return "", fmt.Errorf("redis answered %.80q", line)
	}
	n, err := strconv.Atoi(line[1:])
	if err != nil || n < 0 || n > 1<<20 {
		return "", fmt.Errorf("redis answered %.80q", line)
	}
	body := make([]byte, n+2)
	_, err = io.ReadFull(r, body)
	return string(body[:max(0, len(body)-2)]), err
}
