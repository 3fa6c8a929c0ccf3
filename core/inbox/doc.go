// Package inbox makes a consumer safe against repeats, and keeps what it cannot
// handle. It is the other half of an outbox: a producer can promise that an event
// comes at least once, and only the consumer can see to it that it acts once.
//
// # How
//
// Once wraps an effect. In one transaction it inserts the delivery into the table
// processed, whose key is (event_id, consumer), and lets the effect work:
//
//   - The row is new: the effect runs, and row and effect are committed together. A
//     process that dies before that has done neither, and one that dies after it has
//     done both; the message comes again and finds the row.
//   - The row is there: the delivery is counted in it and acknowledged, without
//     effect. This is no error: an error would bring the message back for ever.
//
// Insert first, never look first: two consumers that look at the same moment both
// find nothing. Of two that insert, the second waits until the first has committed
// or rolled back, which is exactly what it needs to know.
//
// # An effect outside the database
//
// The transaction covers what the effect writes through it and nothing else. A mail
// server, a payment service or another broker takes no part: what it was told before
// a rollback stays told. Told before the commit, a crash between the two has it told
// again; told after the commit, a crash between the two has it never told. No order
// of the two lines mends that. There are two ways out, and both need the other side
// in the end: give it the event's id, so that it recognises the repeat by itself (a
// key for idempotency, as payment services have), or write the mail as a row in the
// transaction and let a relay send it, which is an outbox of the consumer's own and
// sends at least once. A plain SMTP server recognises nothing: a mail through it can
// come twice or not at all, rarely, and a Message-ID made from the event's id lets at
// most the recipient's program hide the second one.
//
// # Failures
//
// An effect that fails is tried again with growing delays (Config). Between two
// attempts no transaction is open. A panic of the effect is a failure like any other.
// After the last attempt, or at once for ErrUnreadable, the message goes to the table
// dead_letters, in one transaction with its row in processed, and is acknowledged.
// When that transaction fails Handle returns an error and the broker keeps the
// message: nothing is lost on the way from one to the other.
//
// A database that cannot be reached, or breaks off, is no failure of the message and
// spends no attempt. Handle returns the error after a pause, and the broker delivers
// the message again, however long the outage lasts.
//
// While the effect runs, only the transaction's own connection says so. All else
// spends attempts, also what looks like an outage: io.EOF from a decoder, another
// server that is away, a disk or a limit that is full (class 53), a session that the
// server ended because its transaction was idle for too long, a table that somebody
// else has locked. A lock that is held for Attempts × Timeout (LOCK TABLE,
// ALTER TABLE) thus makes letters of good messages; they wait for a replay. Only where
// the letters cannot be written either do the messages stay with the broker.
//
// A message whose id is no UUID is a letter at once, and nothing recognises its
// repeats: delivered twice, it is two letters, and two replays have two effects.
//
// The attempts are counted in memory. When the process dies between two of them the
// next one counts from the start: a message that kills its process outright (out of
// memory) is delivered again and again, and only a person who looks will see it.
//
// # The brokers' own limits
//
// Each broker has a way to give up on a message or to hand it to somebody else, which
// must not come before ours. The attempts all happen within one delivery, so that a
// broker which counts deliveries counts one:
//
//   - RabbitMQ 4 drops a message from a quorum queue after 20 returns unless a
//     dead-letter exchange is set (rabbitmq-server#11937). The failing effect costs no
//     return. An outage of the database does, one for each pause (MaxDelay), so the
//     queue needs a limit that is out of reach or x-delivery-limit=-1; the driver of
//     this project declares the former. A delivery must end within consumer_timeout,
//     30 minutes.
//   - NATS delivers again after AckWait, and never again after MaxDeliver deliveries,
//     although the message stays in the stream (nats-server#3294). Have the client
//     send "in progress" meanwhile, and MaxDeliver=-1; the driver does both, three
//     times in each AckWait of 5 s.
//   - Redis has no limit, but XAUTOCLAIM gives an entry that is idle for longer than
//     its minimum to another consumer. The driver keeps what it holds from becoming
//     idle, three times in each 5 s.
//   - Kafka counts no deliveries; it knows the offset of a partition only. A commit
//     beyond a failed message loses it, so the driver commits after Handle has
//     returned nil, and in order. What is behind the message in its partition waits.
//     A member that joins or leaves the group moves partitions, whatever is in work
//     there: the new owner gets the message too, and the inbox decides between them.
//     The heartbeat is a goroutine of its own (session timeout 6 s), and kafka-go has
//     no max.poll.interval; a client that has one (5 minutes by default) needs it above
//     the longest delivery.
//
// With the defaults a delivery takes 1.5 to 1.9 s when the effect fails at once and
// the letter is written, and no delivery takes longer than
//
//	(Attempts + 1) × (Timeout + 1 s for a rollback + 1.25 × MaxDelay)
//
// of which one is the letter's: 73.5 s. With a driver that renews nothing, keep that
// below the times above.
package inbox
