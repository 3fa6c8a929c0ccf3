package kafka

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/segmentio/kafka-go"
)

const (
	// fetchWait is how long the broker holds a fetch open when nothing is there.
	fetchWait = time.Second
	// bodyWait bounds the reading of one message of an answer under way.
	bodyWait = 5 * time.Second
	// fetchBytes is above every sensible message size; Kafka returns at least one
	// batch however large it is.
	fetchBytes = 8 << 20
)

// consume returns what a generation does with one of its partitions. It ends with
// the generation, when all that was handled is committed, and ends the generation
// when a commit fails: somebody else may then own the partition, and the group has
// to be joined anew.
func (s *subscription) consume(ctx context.Context, gen *kafka.Generation, p kafka.PartitionAssignment, shared int) func(context.Context) {
	return func(generation context.Context) {
		life, lose := context.WithCancel(generation)
		defer lose()
		conns := &connSet{}
		r := s.reader(conns, p, shared, lose)
		defer r.Close()
		defer conns.close() // first, so that Close need not wait for a fetch
		handled := make(chan int64, max(1, s.share(shared)/2))
		var commits sync.WaitGroup
		commits.Go(func() { s.commit(gen, p.ID, handled, lose) })
		defer commits.Wait()
		defer close(handled)
		for {
			m, err := r.FetchMessage(life)
			if life.Err() != nil {
				s.bus.life.Pause(generation, retryPause) // the brokers may still be settling
				return
			}
			if err != nil {
				s.afterFetchError(life, r, err)
				continue
			}
			if !s.handle(ctx, life, m) {
				return
			}
			handled <- m.Offset
		}
	}
}

// commit tells the group how far a partition is handled, one request at a time: what
// is handled while one is under way goes with the next. A commit takes milliseconds,
// and one for each message would be the pace of the consumer. A process that is
// killed repeats at most what it handled during two of them.
func (s *subscription) commit(gen *kafka.Generation, partition int, handled <-chan int64, lose func()) {
	for last := range handled {
		for len(handled) > 0 {
			last = <-handled
		}
		next := map[string]map[int]int64{s.bus.cfg.Name(s.topic): {partition: last + 1}}
		if gen.CommitOffsets(next) != nil {
			lose()
			break
		}
	}
	for range handled { // until the consumer has seen it
	}
}

// share is how many messages a partition may hold unacknowledged.
func (s *subscription) share(partitions int) int { return s.bus.cfg.MaxUnacked / partitions }

// reader reads one partition from the group's offset, ahead by half of its share of
// MaxUnacked (two more are in the reader's and the handler's hands); the other half
// is what waits for its commit.
// lose is called when a broker says that it does not have the partition: kafka-go
// looks for it again and goes on at the same offset, which in a topic that was
// deleted and made anew would skip what is there. Joining again asks the group for
// its offset instead.
func (s *subscription) reader(conns *connSet, p kafka.PartitionAssignment, shared int, lose func()) *kafka.Reader {
	r := kafka.NewReader(kafka.ReaderConfig{
		Brokers: s.bus.brokers, Topic: s.bus.cfg.Name(s.topic), Partition: p.ID,
		Dialer:        s.dialer(conns),
		QueueCapacity: max(1, s.share(shared)/2-2),
		MaxBytes:      fetchBytes, MaxWait: fetchWait, ReadBatchTimeout: bodyWait,
		ReadLagInterval: -1, MaxAttempts: 1, ReadBackoffMin: 10 * time.Millisecond,
		ReadBackoffMax: 500 * time.Millisecond, OffsetOutOfRangeError: true,
		// The only place where kafka-go shows these errors.
		ErrorLogger: kafka.LoggerFunc(func(_ string, args ...any) {
			for _, a := range args {
				if err, ok := a.(error); ok && isAny(err, kafka.UnknownTopicOrPartition, kafka.NotLeaderForPartition) {
					lose()
				}
			}
		}),
	})
	_ = r.SetOffset(p.Offset) // fails only on a reader that has a group of its own
	return r
}

// afterFetchError waits a little; the reader reconnects by itself. An offset that
// the log no longer has (the server lost data, the topic was made anew) means
// starting over: better twice than never.
func (s *subscription) afterFetchError(life context.Context, r *kafka.Reader, err error) {
	if errors.Is(err, kafka.OffsetOutOfRange) {
		_ = r.SetOffset(kafka.FirstOffset)
	}
	s.bus.life.Pause(life, retryPause)
}

// handle gives a message to the handler until it takes it; false when the
// subscription or the generation ended before.
func (s *subscription) handle(ctx, life context.Context, r kafka.Message) bool {
	m := message(s.topic, r)
	for {
		select {
		case s.turn <- struct{}{}:
		case <-life.Done():
			return false
		}
		if ctx.Err() != nil || life.Err() != nil {
			<-s.turn
			return false
		}
		err := s.handler(ctx, m)
		<-s.turn
		if err == nil {
			return true
		}
		if !s.bus.life.Pause(life, retryPause) {
			return false
		}
	}
}
