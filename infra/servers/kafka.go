package servers

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"
)

// kafka runs Apache Kafka where the environment names its jars (KAFKA_CLASSPATH,
// or KAFKA_HOME with a libs folder in it) and there is a java, else kfake.
// When Real is asked for, what infra/test has fetched will do as well.
func kafka(_ context.Context, s site) (plan, error) {
	java, classpath := findKafka(s.Form)
	here := classpath != "" && java != ""
	switch {
	case s.Form == Fake, s.Form == "" && !here:
		return fakeKafka(s), nil
	case !here:
		m := missing("kafka")
		_, container, _ := strings.Cut(m.Fix, ", or ")
		m.Fix = "./infra/test fetches it and a Java; or point KAFKA_HOME to an unpacked Kafka 4; or " + container
		return plan{}, m
	}
	return realKafka(s, java, classpath)
}

func realKafka(s site, java, classpath string) (plan, error) {
	ports, err := choosePorts(1)
	if err != nil {
		return plan{}, err
	}
	properties := filepath.Join(s.dir, "server.properties")
	logs := filepath.Join(s.dir, "data")
	if err := os.WriteFile(properties, kafkaProperties(s.port, ports[0], logs), 0o600); err != nil {
		return plan{}, err
	}
	if !isFile(filepath.Join(logs, "meta.properties")) {
		if err := formatKafka(s, java, classpath, properties); err != nil {
			return plan{}, err
		}
	}
	broker := address(s.port)
	return plan{url: broker, mode: Real, version: kafkaVersion(classpath), note: "one node, KRaft", engine: &processes{
		log: filepath.Join(s.dir, "kafka.log"),
		specs: []spec{{path: java, dir: s.dir, stop: syscall.SIGTERM, death: syscall.SIGKILL,
			args: javaArgs(classpath, "kafka.Kafka", properties)}},
		ready:    func(ctx context.Context) error { _, err := Probe(ctx, "kafka", broker); return err },
		patience: 90 * time.Second,
		again:    []string{"Address already in use"},
	}}, nil
}

// kafkaProperties describe one node that is broker and controller. Groups form at
// once, topics are made on purpose only, and nothing waits for a second replica.
func kafkaProperties(port, controller int, logs string) []byte {
	return fmt.Appendf(nil, `process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:%[2]d
listeners=PLAINTEXT://127.0.0.1:%[1]d,CONTROLLER://127.0.0.1:%[2]d
advertised.listeners=PLAINTEXT://127.0.0.1:%[1]d
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs=%[3]s
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.num.partitions=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
auto.create.topics.enable=false
`, port, controller, logs)
}

// formatKafka writes the identity that KRaft wants to find in an empty directory.
func formatKafka(s site, java, classpath, properties string) error {
	const clusterID = "b3V0Ym94LXBsYXlncm91bg" // 16 bytes in base64, as Kafka wants it
	args := append(javaArgs(classpath, "kafka.tools.StorageTool"), "format", "-t", clusterID, "-c", properties)
	if _, err := output(spec{path: java, args: args, dir: s.dir}); err != nil {
		return fmt.Errorf("servers: formatting Kafka's storage: %w", err)
	}
	return nil
}

// javaArgs ask for a modest JVM: it shares the machine with everything else.
func javaArgs(classpath, class string, args ...string) []string {
	return append([]string{"-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
		"-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", classpath, class}, args...)
}

// findKafka returns what runs Apache Kafka; either may be empty.
func findKafka(form string) (java, classpath string) {
	java = findProgram("java", "/opt/homebrew/opt/openjdk/bin/java", "/usr/local/opt/openjdk/bin/java")
	return java, kafkaClasspath(form == Real)
}

// kafkaClasspath returns where Kafka's jars are, or nothing.
func kafkaClasspath(searchCache bool) string {
	if cp := os.Getenv("KAFKA_CLASSPATH"); cp != "" {
		return cp
	}
	if home := os.Getenv("KAFKA_HOME"); home != "" {
		return filepath.Join(home, "libs", "*")
	}
	cache, err := os.UserCacheDir() // as infra/common.sh has it
	if !searchCache || err != nil {
		return ""
	}
	for _, jar := range globNewest(filepath.Join(cache, "outbox-playground", "kafka-*", "kafka_2.13-*.jar")) {
		return filepath.Join(filepath.Dir(jar), "*")
	}
	return ""
}

// kafkaVersion reads the version from the name of Kafka's jar: the protocol does
// not tell it.
func kafkaVersion(classpath string) string {
	jar := regexp.MustCompile(`kafka_2\.\d+-(\d+\.\d+\.\d+[^/]*)\.jar$`)
	for _, entry := range filepath.SplitList(classpath) {
		files := []string{entry}
		if strings.HasSuffix(entry, "*") {
			files, _ = filepath.Glob(entry + ".jar")
		}
		for _, f := range files {
			if m := jar.FindStringSubmatch(f); m != nil {
				return m[1]
			}
		}
	}
	return "unknown"
}
