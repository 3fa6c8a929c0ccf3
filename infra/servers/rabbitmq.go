package servers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// rabbitmq runs a private node. Its directory is bound to the node's name, which
// therefore never changes; an epmd of its own keeps it from meeting another node
// of that name, and from leaving a daemon behind.
func rabbitmq(_ context.Context, s site) (plan, error) {
	if s.Form != "" && s.Form != Real {
		return plan{}, fmt.Errorf("servers: rabbitmq has no %s form", s.Form)
	}
	server, epmd := findRabbit(), findEpmd()
	if server == "" || epmd == "" {
		return plan{}, missing("rabbitmq")
	}
	ports, err := choosePorts(2)
	if err != nil {
		return plan{}, err
	}
	if err := rabbitFiles(s); err != nil {
		return plan{}, err
	}
	url := "amqp://" + address(s.port) // clients fill in guest, which RabbitMQ lets in from loopback only
	return plan{url: url, mode: Real, note: "one node", engine: &processes{
		log: filepath.Join(s.dir, "rabbitmq.log"),
		specs: []spec{
			{path: epmd, args: []string{"-port", strconv.Itoa(ports[0]), "-address", "127.0.0.1"}, dir: s.dir, stop: syscall.SIGKILL, death: syscall.SIGKILL},
			{path: server, env: rabbitEnv(s, ports[0], ports[1]), dir: s.dir, stop: syscall.SIGTERM, death: syscall.SIGKILL},
		},
		ready:    func(ctx context.Context) error { _, err := Probe(ctx, "rabbitmq", url); return err },
		patience: 90 * time.Second,
		again:    []string{"eaddrinuse"},
	}}, nil
}

// rabbitConfig keeps the node on loopback and modest: by itself it would take
// 40 % of the machine's memory and refuse publishes below 2 GB of free disk.
const rabbitConfig = `listeners.tcp.1 = 127.0.0.1:%d
log.console = true
log.file = false
disk_free_limit.absolute = 50MB
vm_memory_high_watermark.absolute = 512MB
`

func rabbitFiles(s site) error {
	return errors.Join(
		os.WriteFile(filepath.Join(s.dir, "rabbitmq.conf"), fmt.Appendf(nil, rabbitConfig, s.port), 0o600),
		os.WriteFile(filepath.Join(s.dir, "enabled_plugins"), []byte("[]."), 0o600),
	)
}

func rabbitEnv(s site, epmdPort, distPort int) []string {
	return []string{
		"HOME=" + s.dir, // the Erlang cookie is kept there
		"RABBITMQ_NODENAME=playground@localhost",
		"RABBITMQ_CONF_ENV_FILE=/dev/null",
		"RABBITMQ_CONFIG_FILE=" + filepath.Join(s.dir, "rabbitmq.conf"),
		"RABBITMQ_ENABLED_PLUGINS_FILE=" + filepath.Join(s.dir, "enabled_plugins"),
		"RABBITMQ_MNESIA_BASE=" + filepath.Join(s.dir, "mnesia"),
		"RABBITMQ_LOG_BASE=" + filepath.Join(s.dir, "log"),
		"RABBITMQ_LOG=warning,-color",
		"RABBITMQ_DIST_PORT=" + strconv.Itoa(distPort),
		"ERL_EPMD_PORT=" + strconv.Itoa(epmdPort),
		"ERL_EPMD_ADDRESS=127.0.0.1",
		"ERL_CRASH_DUMP_BYTES=0",
		"RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS=-kernel inet_dist_use_interface {127,0,0,1}",
		"RUNNING_UNDER_SYSTEMD=true", // the script then becomes the server instead of waiting for it
	}
}

// findRabbit finds the server's own script. Debian's wrapper around it insists on
// its own user and writes to /var/log.
func findRabbit() string {
	for _, p := range globNewest("/usr/lib/rabbitmq/bin/rabbitmq-server", "/usr/lib/rabbitmq/lib/rabbitmq_server-*/sbin/rabbitmq-server",
		"/opt/homebrew/opt/rabbitmq/sbin/rabbitmq-server", "/usr/local/opt/rabbitmq/sbin/rabbitmq-server") {
		return p
	}
	found, err := filepath.EvalSymlinks(findProgram("rabbitmq-server"))
	if err != nil || filepath.Base(found) != "rabbitmq-server" || !isFile(filepath.Join(filepath.Dir(found), "rabbitmq-env")) {
		return ""
	}
	return found
}

func findEpmd() string {
	return findProgram("epmd", "/usr/lib/erlang/erts-*/bin/epmd",
		"/opt/homebrew/opt/erlang/lib/erlang/erts-*/bin/epmd", "/usr/local/opt/erlang/lib/erlang/erts-*/bin/epmd")
}
