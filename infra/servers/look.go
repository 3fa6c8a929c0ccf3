package servers

import "fmt"

// Find says in which form Start would run a server, and from where, without
// starting or writing anything. A *Missing error says how to get it.
func Find(name string) (mode, note string, err error) {
	switch name {
	case "postgres":
		bin, err := postgresBin("")
		return Real, "programs in " + bin, err
	case "rabbitmq":
		if server := findRabbit(); server != "" && findEpmd() != "" {
			return Real, server, nil
		}
		return "", "", missing(name)
	case "kafka":
		if kafkaClasspath(true) != "" && findProgram("java") != "" {
			return Real, "Apache Kafka from KAFKA_CLASSPATH or KAFKA_HOME", nil
		}
		return Fake, "speaks the protocol inside the playground; no disks, no replication", nil
	case "nats":
		return Embedded, "nats-server inside the playground", nil
	case "redis":
		if program := findProgram("redis-server"); program != "" {
			return Real, program, nil
		}
		return Fake, "speaks the protocol inside the playground; no disk", nil
	}
	return "", "", fmt.Errorf("servers: no server is called %q; there are %v", name, Names())
}
