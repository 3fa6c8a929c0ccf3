package nats

import (
	"fmt"
	"strings"

	"outboxplayground/core/bus"
)

// maxName keeps a stream's name, which is also a directory's, well below 255 bytes.
const maxName = 70

// validName says whether a topic or group can be part of a subject.
func validName(name string) bool {
	if len(name) > maxName {
		return false
	}
	for _, token := range strings.Split(name, ".") {
		if token == "" {
			return false
		}
	}
	return strings.IndexFunc(name, func(r rune) bool {
		return r <= ' ' || r > '~' || strings.ContainsRune(`*>/\`, r)
	}) < 0
}

func checkNames(topic string, groups ...string) error {
	for _, name := range append([]string{topic}, groups...) {
		if !validName(name) {
			return fmt.Errorf("nats: %.100q cannot be part of a subject", name)
		}
	}
	return nil
}

func (b *Bus) subject(topic string) string { return b.cfg.Name(topic) }

// stream names the stream of a topic. Two subjects can have the same name without
// dots; the second one is refused when it is made.
func (b *Bus) stream(topic string) string { return plainName(b.cfg.Name(topic)) }

func plainName(name string) string { return strings.ReplaceAll(name, ".", "_") }

// rejected wraps a reason into ErrRejected.
func rejected(format string, args ...any) error {
	return fmt.Errorf("%w: nats: %w", bus.ErrRejected, fmt.Errorf(format, args...))
}
