package main

import (
	"context"
	"slices"
	"strings"
	"sync"

	"outboxplayground/brokers"
	"outboxplayground/brokers/nats"
	"outboxplayground/core/bus"
	"outboxplayground/core/lab"
	"outboxplayground/infra/servers"
)

// inMemory is the bus that has no server.
const inMemory = "inmemory"

// startingBuses are the five buses before anything is known of them.
func startingBuses() []lab.BusInfo {
	infos := make([]lab.BusInfo, 0, 5)
	for _, name := range brokers.Names() {
		infos = append(infos, lab.BusInfo{Name: name, State: lab.Starting, Note: "starting"})
	}
	return infos
}

// openBus returns how to open a bus on a server.
func openBus(name, url string) lab.OpenBus {
	return func(ctx context.Context, o lab.BusOptions) (bus.Bus, error) {
		cfg := brokers.Config{
			Config: bus.Config{URL: url, Prefix: o.Schema, Dial: o.Dial},
			NATS:   nats.Options{DedupeWindow: o.DedupeWindow},
		}
		if o.Brief {
			cfg.RabbitMQ.Settle = -1
		}
		return brokers.Open(ctx, name, cfg)
	}
}

// busInfo is what readers are told of a server.
func busInfo(i servers.Info) lab.BusInfo {
	return lab.BusInfo{
		Name: i.Name, Mode: i.Mode, Version: i.Version, Note: i.Note, Fix: i.Fix,
		NotModelled: notModelled(i.Name, i.Mode),
	}
}

// notModelled says what a form of a bus cannot show.
func notModelled(name, mode string) []string {
	switch name + "/" + mode {
	case "kafka/fake":
		return []string{"replication and leader elections", "the broker's own crash: it lives in this process"}
	case "redis/fake":
		return []string{"append-only file and eviction", "the server's own crash: it lives in this process"}
	case "nats/embedded":
		return []string{"clusters", "the server's own crash: it lives in this process"}
	case "inmemory/memory":
		return []string{"a network, hence outages", "anything after this process ends"}
	}
	return nil
}

// attachAll brings every broker and tells known and attach of each as soon as it is
// there, so that a slow one never delays the others. It returns when all are known.
func attachAll(ctx context.Context, f *fleet, known func(servers.Info), attach func(lab.BusInfo, lab.OpenBus)) {
	var brought sync.WaitGroup
	for _, name := range servers.Names() {
		if name == "postgres" {
			continue
		}
		brought.Go(func() {
			info := f.bring(ctx, name)
			if ctx.Err() != nil {
				return
			}
			known(info)
			if info.Mode == servers.Off {
				attach(busInfo(info), nil)
				return
			}
			attach(busInfo(info), openBus(name, info.URL))
		})
	}
	brought.Wait()
}

// memoryInfo describes the bus in memory.
func memoryInfo() lab.BusInfo {
	return lab.BusInfo{Name: inMemory, Mode: "memory", Note: "ready; forgets everything when this process ends",
		NotModelled: notModelled(inMemory, "memory")}
}

// oneOf tells whether name is listed, and prints the list for a message.
func oneOf(name string, names []string) (bool, string) {
	return slices.Contains(names, name), strings.Join(names, ", ")
}
