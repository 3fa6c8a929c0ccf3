package servers

import "fmt"

// Find says in which form Start would run a server, and from where, without
// starting or writing anything. A *Missing error says how to get it.
func Find(name string) (mode, note string, err error) {
	switch name {
	case "postgres":
		bin, err := postgresBin("")
		if err != nil {
			return "", "", err
		}
		return Real, "programs in " + bin, nil
	case "rabbitmq":
		if server := findRabbit(); server != "" && findEpmd() != "" {
			return Real, server, nil
		}
		return "", "", missing(name)
	case "kafka":
		if java, classpath := findKafka(""); java != "" && classpath != "" {
			return Real, "Apache Kafka " + kafkaVersion(classpath) + " from KAFKA_CLASSPATH or KAFKA_HOME", nil
		}
		return Fake, "speaks the protocol inside the playground; no disks, no replication", nil
	case "nats":
		return Embedded, "nats-server inside the playground", nil
	case "redis":
		if program := findRedis(); program != "" {
			return Real, program, nil
		}
		return Fake, "speaks the protocol inside the playground; no disk", nil
	}
	return "", "", fmt.Errorf("servers: no server is called %q; there are %v", name, Names())
}
