package servers

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// The ways in which PgBouncer hands out the sessions of its PostgreSQL.
const (
	BySession     = "session"     // to a client for as long as it is connected
	ByTransaction = "transaction" // for the length of a transaction: what a session remembers is lost
)

// StartPgBouncer starts a pooler in front of the PostgreSQL at a URL, and returns
// when it answers. Its databases, users and passwords are those of the URL. What a
// client asks for in its startup packet, beyond user and database, is ignored: a
// search_path has to be set on the database. Errors are those of Start.
func StartPgBouncer(ctx context.Context, upstream, mode string, o Options) (*Server, error) {
	begun := time.Now()
	s := &Server{Name: "pgbouncer", Dir: o.Dir}
	if err := s.prepareDir(); err != nil {
		return nil, err
	}
	launch := func(_ context.Context, at site) (plan, error) { return pgbouncer(at, upstream, mode) }
	if err := s.launch(ctx, launch, o); err != nil {
		return nil, errors.Join(err, s.temp.remove())
	}
	s.Took = time.Since(begun)
	return s, nil
}

func pgbouncer(s site, upstream, mode string) (plan, error) {
	program := findProgram("pgbouncer", "/usr/sbin/pgbouncer", "/opt/homebrew/bin/pgbouncer")
	if program == "" {
		return plan{}, missing("pgbouncer")
	}
	to, err := url.Parse(upstream)
	if err != nil || to.Port() == "" || to.User == nil {
		return plan{}, errors.New("servers: pgbouncer needs the URL of a PostgreSQL, with user and port")
	}
	as := unprivileged("postgres")
	if err := owned(s.dir, as); err != nil {
		return plan{}, err
	}
	ini := filepath.Join(s.dir, "pgbouncer.ini")
	if err := errors.Join(give(ini, pgbouncerConfig(s, to, mode), as), give(s.userlist(), pgbouncerUser(to), as)); err != nil {
		return plan{}, err
	}
	version, err := output(spec{path: program, args: []string{"--version"}, dir: "/"})
	if err != nil {
		return plan{}, err
	}
	through := *to
	through.Host = address(s.port)
	return plan{url: through.String(), mode: Real, version: strings.TrimPrefix(firstLine(string(version)), "PgBouncer "),
		note: "hands out sessions by the " + mode, engine: &processes{
			log:      filepath.Join(s.dir, "pgbouncer.log"),
			specs:    []spec{{path: program, args: []string{ini}, dir: s.dir, as: as, stop: syscall.SIGTERM, death: syscall.SIGTERM}},
			ready:    func(ctx context.Context) error { _, err := Probe(ctx, "postgres", through.String()); return err },
			patience: 30 * time.Second,
		}}, nil
}

func (s site) userlist() string { return filepath.Join(s.dir, "userlist.txt") }

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}

// pgbouncerConfig asks for the same password as PostgreSQL does, if that does.
func pgbouncerConfig(s site, to *url.URL, mode string) string {
	auth := "scram-sha-256"
	if _, has := to.User.Password(); !has {
		auth = "trust"
	}
	return fmt.Sprintf(`[databases]
* = host=%s port=%s
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %d
unix_socket_dir =
auth_type = %s
auth_file = %s
pool_mode = %s
ignore_startup_parameters = extra_float_digits, search_path
`, to.Hostname(), to.Port(), s.port, auth, s.userlist(), mode)
}

// pgbouncerUser is the one line of its list of users, quoted in its own way.
func pgbouncerUser(to *url.URL) string {
	quote := func(s string) string { return `"` + strings.ReplaceAll(s, `"`, `""`) + `"` }
	password, _ := to.User.Password()
	return quote(to.User.Username()) + " " + quote(password) + "\n"
}
