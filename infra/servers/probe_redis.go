package servers

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
)

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
