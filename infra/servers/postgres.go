package servers

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// postgres runs a private cluster from the binaries on the machine. It listens on
// TCP so that psql reaches it easily, hence it asks for a password: any local
// user could become its superuser, and through COPY ... PROGRAM its account,
// otherwise.
func postgres(_ context.Context, s site) (plan, error) {
	if s.Form != "" && s.Form != Real {
		return plan{}, fmt.Errorf("servers: postgres is always real, not %s", s.Form)
	}
	cluster := filepath.Join(s.dir, "cluster")
	bin, err := postgresBin(cluster)
	if err != nil {
		return plan{}, err
	}
	as := unprivileged("postgres")
	if err := owned(s.dir, as); err != nil {
		return plan{}, err
	}
	if !isFile(filepath.Join(cluster, "PG_VERSION")) {
		if err := initdb(s, bin, cluster, as); err != nil {
			return plan{}, err
		}
	}
	password, err := os.ReadFile(filepath.Join(s.dir, "password"))
	if err != nil {
		return plan{}, err
	}
	dsn := postgresURL(s.port, strings.TrimSpace(string(password)))
	engine := &processes{
		log:      filepath.Join(s.dir, "postgres.log"),
		specs:    []spec{{path: filepath.Join(bin, "postgres"), args: postgresArgs(s, cluster), dir: s.dir, as: as, stop: syscall.SIGINT, death: syscall.SIGINT}},
		ready:    func(ctx context.Context) error { _, err := Probe(ctx, "postgres", dsn); return err },
		patience: time.Minute,
		again:    []string{"postmaster.pid", "shared memory block"},
	}
	note := fmt.Sprintf("private cluster; look inside: PGPASSFILE=%s psql %s", filepath.Join(s.dir, "pgpass"), Redact(dsn))
	return plan{url: dsn, mode: Real, note: note, engine: engine}, writePgpass(s, password)
}

func postgresURL(port int, password string) string {
	u := url.URL{Scheme: "postgres", User: url.UserPassword("playground", password),
		Host: address(port), Path: "/postgres", RawQuery: "sslmode=disable"}
	return u.String()
}

// postgresArgs are given at each start instead of being kept in a file, so that
// a cluster made by an earlier version of the playground gets them too.
func postgresArgs(s site, cluster string) []string {
	args := []string{"-D", cluster}
	for _, c := range []string{
		"listen_addresses=127.0.0.1", "port=" + strconv.Itoa(s.port), "unix_socket_directories=",
		"wal_level=logical", "max_prepared_transactions=16", "max_replication_slots=64", "max_wal_senders=64",
		"max_connections=200", "max_slot_wal_keep_size=1GB", // a forgotten slot must not fill the disk
	} {
		args = append(args, "-c", c)
	}
	if s.NoSync {
		args = append(args, "-c", "fsync=off", "-c", "full_page_writes=off")
	}
	return args
}

// initdb makes the cluster beside its final place, so that one that was
// interrupted is never taken for whole.
func initdb(s site, bin, cluster string, as *account) error {
	draft, pwfile := cluster+".new", filepath.Join(s.dir, "password")
	if err := errors.Join(os.RemoveAll(draft), os.RemoveAll(cluster)); err != nil {
		return err
	}
	if err := give(pwfile, rand.Text()+"\n", as); err != nil {
		return err
	}
	args := []string{"-D", draft, "-U", "playground", "-E", "UTF8", "--locale=C", "--auth=scram-sha-256", "--pwfile=" + pwfile}
	if s.NoSync {
		args = append(args, "--no-sync")
	}
	if _, err := output(spec{path: filepath.Join(bin, "initdb"), args: args, dir: s.dir, as: as}); err != nil {
		return fmt.Errorf("servers: making a PostgreSQL cluster: %w", err)
	}
	return os.Rename(draft, cluster)
}

// give writes a private file that belongs to the account.
func give(path, content string, as *account) error {
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		return err
	}
	if as == nil {
		return nil
	}
	return os.Chown(path, int(as.uid), int(as.gid))
}

func writePgpass(s site, password []byte) error {
	line := fmt.Sprintf("127.0.0.1:%d:*:playground:%s", s.port, password)
	return os.WriteFile(filepath.Join(s.dir, "pgpass"), []byte(line), 0o600)
}

// postgresBin finds the directory of initdb and postgres: that of the version
// which made the cluster, else the first in PATH, else the newest.
func postgresBin(cluster string) (string, error) {
	var found []string
	for _, program := range append([]string{findProgram("initdb")}, globNewest(
		"/usr/lib/postgresql/*/bin/initdb", "/usr/pgsql-*/bin/initdb",
		"/opt/homebrew/opt/postgresql@*/bin/initdb", "/usr/local/opt/postgresql@*/bin/initdb")...) {
		real, err := filepath.EvalSymlinks(program) // what is in PATH may be a wrapper beside nothing
		if err == nil && isFile(filepath.Join(filepath.Dir(real), "postgres")) {
			found = append(found, filepath.Dir(real))
		}
	}
	if len(found) == 0 {
		return "", missing("postgres")
	}
	made, err := os.ReadFile(filepath.Join(cluster, "PG_VERSION"))
	if err != nil {
		return found[0], nil // a new cluster
	}
	return madeBy(found, strings.TrimSpace(string(made)), cluster)
}

func madeBy(bins []string, major, cluster string) (string, error) {
	for _, bin := range bins {
		out, err := output(spec{path: filepath.Join(bin, "postgres"), args: []string{"--version"}, dir: "/"})
		words := strings.Fields(string(out))
		if err == nil && len(words) > 2 && strings.HasPrefix(words[2]+".", major+".") {
			return bin, nil
		}
	}
	return "", fmt.Errorf("servers: %s was made by PostgreSQL %s, which is not here any more; start with --fresh for a new one", cluster, major)
}
