package servers

import (
	"fmt"
	"net/url"
	"os"
	"regexp"
	"runtime"
	"strings"
)

// Missing says that this machine cannot run a server, and what would change that.
type Missing struct {
	Name string
	Fix  string // the line that turns it on
}

// Error names the server and the fix.
func (m *Missing) Error() string {
	return fmt.Sprintf("servers: %s is not on this machine: %s", m.Name, m.Fix)
}

// missing makes the error with the fix for this machine: its packages, or a container.
func missing(name string) *Missing {
	apt, brew := name, name
	switch name {
	case "postgres":
		apt, brew = "postgresql", "postgresql@17"
	case "rabbitmq":
		apt = "rabbitmq-server"
	case "redis":
		apt = "redis-server"
	case "nats":
		apt, brew = "nats-server", "nats-server"
	}
	fix := "apt-get install -y " + apt
	if os.Geteuid() != 0 {
		fix = "sudo " + fix
	}
	if runtime.GOOS == "darwin" {
		fix = "brew install " + brew
	}
	if name == "pgbouncer" { // of the tests alone: no URL names it
		return &Missing{Name: name, Fix: fix}
	}
	return &Missing{Name: name, Fix: fmt.Sprintf("%s, or docker compose up -d %s and %s", fix, name, byURL(name))}
}

// byURL is the assignment that points the playground to the compose file's server.
// RabbitMQ and PostgreSQL clients fill in the user that the compose file sets up.
func byURL(name string) string {
	switch name {
	case "postgres":
		return "DATABASE_URL=postgres://playground:playground@127.0.0.1:5432/playground"
	case "rabbitmq":
		return "RABBITMQ_URL=amqp://127.0.0.1:5672"
	case "kafka":
		return "KAFKA_BROKERS=127.0.0.1:9092"
	case "nats":
		return "NATS_URL=nats://127.0.0.1:4222"
	default:
		return "REDIS_URL=redis://127.0.0.1:6379"
	}
}

// Variable is the environment variable that names a server.
func Variable(name string) string {
	v, _, _ := strings.Cut(byURL(name), "=")
	return v
}

// Redact returns a server's URL without its password, fit to be printed. What it
// does not understand it leaves out.
func Redact(raw string) string {
	if !strings.Contains(raw, "://") {
		return redactPlain(raw)
	}
	var parts []string // several, as NATS takes them
	for _, p := range splitURLs(raw) {
		if u, err := url.Parse(p); err == nil && u.Host != "" {
			parts = append(parts, redactURL(u))
		} else {
			parts = append(parts, afterAt(p))
		}
	}
	return strings.Join(parts, ",")
}

// splitURLs cuts at the commas before a scheme: a password may hold others.
func splitURLs(raw string) []string {
	var parts []string
	from := 0
	for _, at := range regexp.MustCompile(`,\s*[a-z]+://`).FindAllStringIndex(raw, -1) {
		parts = append(parts, raw[from:at[0]])
		from = at[0] + 1
	}
	return append(parts, raw[from:])
}

func redactURL(u *url.URL) string {
	if u.User != nil {
		u.User = url.User(u.User.Username())
	}
	if q := u.Query(); q.Has("password") {
		q.Del("password")
		u.RawQuery = q.Encode()
	}
	return u.String()
}

// redactPlain is for host:port pairs and for PostgreSQL's "host=h password=p".
func redactPlain(raw string) string {
	if strings.Contains(raw, "=") {
		return "(key-value form)"
	}
	return afterAt(raw)
}

func afterAt(s string) string { return s[strings.LastIndex(s, "@")+1:] }
