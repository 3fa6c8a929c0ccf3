// Package compose checks docker-compose.yml without a container engine: that it
// is valid, and that every name, port and address in it is what the playground
// expects. It is a module of its own, so that the playground does not depend on
// the loader.
package compose

import (
	"context"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"
)

func load(t *testing.T) *types.Project {
	t.Helper()
	o, err := cli.NewProjectOptions([]string{"../../docker-compose.yml"}, cli.WithoutEnvironmentResolution)
	if err != nil {
		t.Fatal(err)
	}
	p, err := o.LoadProject(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func service(t *testing.T, name string) types.ServiceConfig {
	t.Helper()
	s, err := load(t).GetService(name)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestServices(t *testing.T) {
	p := load(t)
	want := []string{"kafka", "nats", "playground", "postgres", "rabbitmq", "redis"}
	names := p.ServiceNames()
	slices.Sort(names)
	if !slices.Equal(names, want) {
		t.Errorf("services %v, want %v", names, want)
	}
	if len(p.DisabledServices) > 0 {
		t.Errorf("services hidden behind a profile: %v", p.DisabledServices)
	}
}

func TestPortsAreOnLoopbackOnly(t *testing.T) {
	want := map[string]string{"playground": "8000", "postgres": "5432", "rabbitmq": "5672", "kafka": "9092", "nats": "4222", "redis": "6379"}
	for name, s := range load(t).Services {
		if len(s.Ports) != 1 {
			t.Errorf("%s publishes %d ports", name, len(s.Ports))
			continue
		}
		p := s.Ports[0]
		if p.HostIP != "127.0.0.1" || p.Published != want[name] || p.Target != number(want[name]) {
			t.Errorf("%s publishes %s:%s to %d, want 127.0.0.1:%[5]s to %[5]s", name, p.HostIP, p.Published, p.Target, want[name])
		}
	}
}

func number(s string) (n uint32) {
	for _, r := range s {
		n = n*10 + uint32(r-'0')
	}
	return n
}

func TestImagesArePinned(t *testing.T) {
	exact := regexp.MustCompile(`^[a-z/]+:\d+\.\d+(\.\d+)?(-[a-z]+)?$`)
	for name, s := range load(t).Services {
		switch {
		case name == "playground":
			if s.Build == nil || s.Build.Dockerfile != "infra/Dockerfile" || s.Image != "" {
				t.Errorf("playground is not built from infra/Dockerfile: %+v", s.Build)
			}
		case !exact.MatchString(s.Image):
			t.Errorf("%s: image %q has no exact version", name, s.Image)
		}
	}
}

// Official images of PostgreSQL have two numbers in a version, all others three.
func TestImagesHaveAllNumbers(t *testing.T) {
	for name, s := range load(t).Services {
		if name == "playground" || name == "postgres" {
			continue
		}
		if _, version, _ := strings.Cut(s.Image, ":"); strings.Count(version, ".") != 2 {
			t.Errorf("%s: image %q floats", name, s.Image)
		}
	}
}

func TestDataIsKeptInNamedVolumes(t *testing.T) {
	want := map[string]string{"postgres": "/var/lib/postgresql/data", "rabbitmq": "/var/lib/rabbitmq",
		"kafka": "/var/lib/kafka/data", "nats": "/data", "redis": "/data"}
	p := load(t)
	for name, target := range want {
		v := p.Services[name].Volumes
		if len(v) != 1 || v[0].Type != "volume" || v[0].Source != name || v[0].Target != target {
			t.Errorf("%s: volumes %+v, want %s at %s", name, v, name, target)
		}
		if _, ok := p.Volumes[name]; !ok {
			t.Errorf("volume %s is not declared", name)
		}
	}
}

// The addresses that the playground gets lead to a port on which the other
// service listens inside the network.
func TestPlaygroundIsToldEveryServer(t *testing.T) {
	env := service(t, "playground").Environment
	want := map[string]string{"DATABASE_URL": "postgres:5432", "RABBITMQ_URL": "rabbitmq:5672",
		"KAFKA_BROKERS": "kafka:19092", "NATS_URL": "nats:4222", "REDIS_URL": "redis:6379"}
	for variable, host := range want {
		value := env[variable]
		if value == nil {
			t.Errorf("%s is not set", variable)
			continue
		}
		got := *value
		if u, err := url.Parse(got); err == nil && u.Host != "" {
			got = u.Host
		}
		if got != host {
			t.Errorf("%s leads to %s, want %s", variable, got, host)
		}
	}
	if a := env["ADDR"]; a == nil || *a != "0.0.0.0:8000" {
		t.Errorf("ADDR is %v", a)
	}
}

func TestPlaygroundWaitsForPostgresOnly(t *testing.T) {
	d := service(t, "playground").DependsOn
	if len(d) != 1 || d["postgres"].Condition != types.ServiceConditionHealthy {
		t.Errorf("depends on %+v", d)
	}
}

// Every check names the program it runs; each is part of the image it runs in.
func TestHealthChecks(t *testing.T) {
	want := map[string]string{"playground": "/playground healthcheck", "postgres": "pg_isready -h 127.0.0.1",
		"rabbitmq": "rabbitmq-diagnostics", "kafka": "/opt/kafka/bin/kafka-broker-api-versions.sh", "nats": "wget", "redis": "redis-cli ping"}
	for name, s := range load(t).Services {
		h := s.HealthCheck
		if h == nil || len(h.Test) < 2 || !strings.HasPrefix(strings.Join(h.Test[1:], " "), want[name]) {
			t.Errorf("%s: health check %+v, want %s", name, h, want[name])
			continue
		}
		if h.Interval == nil || h.Timeout == nil || h.StartPeriod == nil || h.Retries == nil {
			t.Errorf("%s: its health check leaves a default open", name)
		}
	}
	if nats := service(t, "nats"); !strings.HasSuffix(nats.Image, "-alpine") {
		t.Errorf("image %s has no wget", nats.Image)
	}
}

func TestPostgresIsSetUpForEveryChapter(t *testing.T) {
	s := service(t, "postgres")
	command := strings.Join(s.Command, " ")
	for _, want := range []string{"wal_level=logical", "max_prepared_transactions=16", "max_replication_slots=64"} {
		if !strings.Contains(command, want) {
			t.Errorf("%q lacks %s", command, want)
		}
	}
	u, err := url.Parse(*service(t, "playground").Environment["DATABASE_URL"])
	if err != nil {
		t.Fatal(err)
	}
	password, _ := u.User.Password()
	got := []string{u.User.Username(), password, strings.TrimPrefix(u.Path, "/")}
	want := []string{*s.Environment["POSTGRES_USER"], *s.Environment["POSTGRES_PASSWORD"], *s.Environment["POSTGRES_DB"]}
	if !slices.Equal(got, want) {
		t.Error("the playground's URL does not fit user, password and database of the service")
	}
}

func TestKafkaTellsEachClientItsOwnAddress(t *testing.T) {
	env := service(t, "kafka").Environment
	want := map[string]string{
		"KAFKA_ADVERTISED_LISTENERS":             "INSIDE://kafka:19092,OUTSIDE://127.0.0.1:9092",
		"KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS": "0",
		"KAFKA_AUTO_CREATE_TOPICS_ENABLE":        "false",
		"KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR": "1",
		"KAFKA_PROCESS_ROLES":                    "broker,controller",
		"KAFKA_LOG_DIRS":                         "/var/lib/kafka/data",
	}
	for k, v := range want {
		if env[k] == nil || *env[k] != v {
			t.Errorf("%s is %v, want %s", k, env[k], v)
		}
	}
}

func TestBrokersKeepWhatTheyAccepted(t *testing.T) {
	redis := strings.Join(service(t, "redis").Command, " ")
	if !strings.Contains(redis, "--appendonly yes --appendfsync always") {
		t.Errorf("redis: %s", redis)
	}
	nats := strings.Join(service(t, "nats").Command, " ")
	if !strings.Contains(nats, "-js -sd /data") || !strings.Contains(nats, "-m 8222") {
		t.Errorf("nats: %s", nats)
	}
	if service(t, "rabbitmq").Hostname != "rabbitmq" {
		t.Error("rabbitmq finds its data by its host name, which changes")
	}
}

func TestDockerfile(t *testing.T) {
	dockerfile, gomod := read(t, "../Dockerfile"), read(t, "../../go.mod")
	version := regexp.MustCompile(`(?m)^go (\S+)$`).FindStringSubmatch(gomod)[1]
	for _, want := range []string{
		"FROM golang:" + version + "-", "CGO_ENABLED=0", "./chapters", "FROM scratch\n", "USER 65532:65532",
		`CMD ["/playground", "healthcheck"]`, `ENTRYPOINT ["/playground"]`, `CMD ["serve"]`,
	} {
		if !strings.Contains(dockerfile, want) {
			t.Errorf("Dockerfile lacks %q", want)
		}
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
