package servers_test

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"outboxplayground/infra/servers"
	"outboxplayground/infra/servers/servertest"
)

func TestUnknownServer(t *testing.T) {
	if _, err := servers.Start(context.Background(), "zeromq", servers.Options{}); err == nil || !strings.Contains(err.Error(), "rabbitmq") {
		t.Errorf("%v does not name the servers there are", err)
	}
}

// With nothing installed each server that needs a program says how to get it, and
// leaves no directory behind.
func TestMissingServerNamesItsFix(t *testing.T) {
	if os.Getenv("KAFKA_HOME")+os.Getenv("KAFKA_CLASSPATH") != "" {
		t.Setenv("KAFKA_HOME", "")
		t.Setenv("KAFKA_CLASSPATH", "")
	}
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	t.Setenv("HOME", t.TempDir())
	t.Setenv("TMPDIR", t.TempDir())
	_, err := servers.Start(context.Background(), "kafka", servers.Options{Form: servers.Real})
	var m *servers.Missing
	if !errors.As(err, &m) || m.Name != "kafka" || !strings.Contains(m.Fix, "KAFKA_BROKERS=127.0.0.1:9092") {
		t.Errorf("%v", err)
	}
	if left, _ := filepath.Glob(filepath.Join(os.TempDir(), "*")); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

func TestKafkaIsADoubleUnlessNamed(t *testing.T) {
	t.Setenv("KAFKA_HOME", "")
	t.Setenv("KAFKA_CLASSPATH", "")
	s := servertest.Start(t, "kafka", servers.Options{})
	if s.Mode != servers.Fake || s.PID() != os.Getpid() {
		t.Errorf("mode %s, process %d", s.Mode, s.PID())
	}
}

// What doctor promises is what serve starts.
func TestFindTellsWhatStartDoes(t *testing.T) {
	for _, name := range servers.Names() {
		t.Run(name, func(t *testing.T) {
			mode, note, err := servers.Find(name)
			var gone *servers.Missing
			if errors.As(err, &gone) {
				if _, err := servers.Start(testContext(t), name, servers.Options{}); !errors.As(err, &gone) {
					t.Errorf("not found, but started: %v", err)
				}
				return
			}
			must(t, err)
			s := servertest.Start(t, name, servers.Options{NoSync: true})
			if s.Mode != mode || note == "" {
				t.Errorf("found %s (%s), started %s", mode, note, s.Mode)
			}
		})
	}
}

// A server that cannot start says why, in its own words, and leaves nothing.
func TestFailedStartShowsTheLog(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer taken.Close()
	servertest.Start(t, "redis", servers.Options{Form: servers.Real}) // skips where it is missing
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	dir := reachableDir(t)
	port := taken.Addr().(*net.TCPAddr).Port
	_, err = servers.Start(ctx, "redis", servers.Options{Form: servers.Real, Dir: dir, Port: port})
	if err == nil || !strings.Contains(err.Error(), "redis.log") || !strings.Contains(err.Error(), "in use") {
		t.Fatalf("%v", err)
	}
	if left := processesIn(dir); len(left) > 0 {
		t.Errorf("processes left: %v", left)
	}
}

// PostgreSQL lets nobody in without the password, which is not in what is printed.
func TestPostgresAsksForItsPassword(t *testing.T) {
	s := servertest.Start(t, "postgres", servers.Options{NoSync: true})
	if _, err := takePostgres(testContext(t), s.Place()); err == nil || !strings.Contains(err.Error(), "password") {
		t.Errorf("without a password: %v", err)
	}
	password, err := os.ReadFile(filepath.Join(s.Dir, "password"))
	must(t, err)
	for _, text := range []string{s.Place(), s.Note} {
		if strings.Contains(text, strings.TrimSpace(string(password))) {
			t.Errorf("the password is in %q", text)
		}
	}
}

// The playground's chapters need these of their PostgreSQL.
func TestPostgresSettings(t *testing.T) {
	s := servertest.Start(t, "postgres", servers.Options{})
	ctx := testContext(t)
	for name, want := range map[string]string{
		"wal_level": "logical", "max_prepared_transactions": "16", "max_replication_slots": "64",
		"max_connections": "200", "listen_addresses": "127.0.0.1", "fsync": "on", "full_page_writes": "on",
	} {
		if got := setting(ctx, t, s.URL, name); got != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
}

// The address that Missing suggests is the one that the compose file publishes.
func TestFixFitsTheComposeFile(t *testing.T) {
	file, err := os.ReadFile("../../docker-compose.yml")
	must(t, err)
	for name, port := range map[string]int{"postgres": 5432, "rabbitmq": 5672, "kafka": 9092, "nats": 4222, "redis": 6379} {
		fix := servers.FixOf(name)
		p := strconv.Itoa(port)
		if !strings.Contains(fix, servers.Variable(name)+"=") || !strings.Contains(fix, "127.0.0.1:"+p) {
			t.Errorf("%s: fix %q", name, fix)
		}
		if !strings.Contains(string(file), `"127.0.0.1:`+p+":"+p+`"`) {
			t.Errorf("docker-compose.yml does not publish %s", p)
		}
	}
}
