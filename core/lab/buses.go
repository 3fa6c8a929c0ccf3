package lab

import (
	"context"
	"errors"
	"fmt"
	"time"

	"outboxplayground/core/bus"
)

// The states of a bus.
const (
	Starting = "starting" // not reached yet; it may still come
	Ready    = "ready"    // reached at least once; it may be down now
	Off      = "off"      // it will not start; Fix says how to turn it on
)

// BusInfo is what the reader is told about a bus.
type BusInfo struct {
	Name string `json:"name"`
	// Mode is the fidelity: real, embedded (the real server in our process), fake (a
	// protocol double in our process), memory, or off.
	Mode    string `json:"mode"`
	State   string `json:"state"`
	Version string `json:"version,omitempty"`
	Note    string `json:"note"`
	Fix     string `json:"fix,omitempty"`
	// NotModelled says what this mode cannot show.
	NotModelled []string `json:"not_modelled,omitempty"`
	Default     bool     `json:"default,omitempty"`
}

// OpenBus opens a bus; the caller closes it.
type OpenBus func(ctx context.Context, o BusOptions) (bus.Bus, error)

// BusOptions say for whom a bus is opened.
type BusOptions struct {
	// Schema is the prefix of every name on the broker.
	Schema string
	// Dial opens connections. Default: the driver's own.
	Dial bus.DialFunc
	// Brief: the names live for one run, in which nobody kills the broker. RabbitMQ
	// then need not wait until a new queue would survive that.
	Brief bool
	// DedupeWindow is how long NATS recognises a repeated id. Default: the driver's.
	DedupeWindow time.Duration
}

// Why an order is refused before its transaction.
var (
	ErrUnknownBus  = errors.New("there is no such bus")
	ErrBusOff      = errors.New("this bus is off")
	ErrBusStarting = errors.New("this bus is still starting")
)

// defaultBuses are the candidates for the default, the best first.
func defaultBuses() []string { return []string{"rabbitmq", "nats", "inmemory"} }

// Buses returns what is known of every bus, in the order of the configuration,
// with the default one marked.
func (l *Live) Buses() []BusInfo {
	def := l.DefaultBus()
	l.mu.Lock()
	defer l.mu.Unlock()
	infos := make([]BusInfo, len(l.infos))
	copy(infos, l.infos)
	for i := range infos {
		infos[i].Default = infos[i].Name == def
	}
	return infos
}

// Bus returns what is known of one bus; ErrUnknownBus if there is no such.
func (l *Live) Bus(name string) (BusInfo, error) {
	for _, b := range l.Buses() {
		if b.Name == name {
			return b, nil
		}
	}
	return BusInfo{}, fmt.Errorf("%w: %q", ErrUnknownBus, name)
}

// slowest is the bus that is not waited for: it takes seconds to start.
const slowest = "rabbitmq"

// DefaultBus is rabbitmq where it is ready, else nats unless that is off, else
// inmemory: whoever names no bus shall not get the one that forgets everything just
// because another is still starting.
func (l *Live) DefaultBus() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, name := range defaultBuses() {
		for _, b := range l.infos {
			if b.Name == name && (b.State == Ready || b.State == Starting && name != slowest) {
				return name
			}
		}
	}
	return "inmemory"
}

// setInfo replaces what is known of a bus.
func (l *Live) setInfo(info BusInfo) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range l.infos {
		if l.infos[i].Name == info.Name {
			l.infos[i] = info
			return
		}
	}
	l.infos = append(l.infos, info)
}
