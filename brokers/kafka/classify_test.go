package kafka

import (
	"errors"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"outboxplayground/brokers/brokertest/kit"
	"outboxplayground/core/bus"
)

// What the broker's answers to a produce request mean, on the double, which can be
// made to give each of them.
func TestTheBrokersAnswersHaveTheirClass(t *testing.T) {
	c := double(t)
	b := open(t, bus.Config{URL: c.ListenAddrs()[0]}, Options{})
	prepare(t, b, "g")
	for answer, want := range map[*kerr.Error]bus.Class{
		kerr.NotEnoughReplicas:            bus.Unavailable,
		kerr.NotEnoughReplicasAfterAppend: bus.Ambiguous,
		kerr.RequestTimedOut:              bus.Ambiguous,
		kerr.NotLeaderForPartition:        bus.Ambiguous,
		kerr.UnknownTopicOrPartition:      bus.Ambiguous, // metadata knows the topic
		kerr.KafkaStorageError:            bus.Ambiguous,
		kerr.UnknownServerError:           bus.Ambiguous,
		kerr.MessageTooLarge:              bus.Rejected,
		kerr.TopicAuthorizationFailed:     bus.Rejected,
		kerr.InvalidRecord:                bus.Rejected,
	} {
		h := c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: b.cfg.Name("safe"), Err: answer, Count: -1})
		err := b.Publish(kit.Within(t, 5*time.Second), kit.Messages(3)...)
		h.Remove()
		if h.Hits() == 0 {
			t.Fatalf("%v was never answered", answer)
		}
		for i := range 3 {
			if got := bus.Classify(bus.Outcome(err, i)); got != want {
				t.Errorf("%s: %v, want %v (%v)", answer.Message, got, want, err)
			}
		}
		if err := b.Publish(kit.Within(t, 5*time.Second), kit.Message(0)); err != nil {
			t.Errorf("after %s: %v", answer.Message, err)
		}
	}
}

// A broker that cannot be reached says less than one that answers.
func TestAnAnswerCountsForMoreThanSilence(t *testing.T) {
	c := double(t)
	for _, url := range []string{"127.0.0.1:1," + c.ListenAddrs()[0], c.ListenAddrs()[0] + ",127.0.0.1:1"} {
		b := open(t, bus.Config{URL: url}, Options{})
		err := b.Publish(kit.Within(t, 5*time.Second), kit.Message(0))
		kit.WantClass(t, err, bus.Rejected)
		if !errors.Is(err, kafka.UnknownTopicOrPartition) {
			t.Error(err)
		}
		prepare(t, b, "g")
		if err := b.Publish(kit.Within(t, 5*time.Second), kit.Message(0)); err != nil {
			t.Error(err)
		}
	}
}
