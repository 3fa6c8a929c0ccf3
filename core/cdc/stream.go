package cdc

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pglogrepl"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
)

// stream is a replication connection that is being read. One goroutine reads, another
// one reports the position; both end with close.
type stream struct {
	conn    *pgconn.PgConn
	slot    string
	decoder decoder
	items   chan *item
	term    time.Duration

	confirmed atomic.Uint64 // what is to be reported: everything before is published
	sending   sync.Mutex    // guards writes to conn, and what follows
	sent      uint64
	askedAt   time.Time

	stop    context.CancelFunc
	running sync.WaitGroup
	failed  chan struct{} // closed when err is set
	err     error
}

const (
	connectTimeout = 5 * time.Second
	closeTimeout   = time.Second
	// reportEvery is how soon a position is reported that no event of ours asked for.
	reportEvery = 100 * time.Millisecond
)

// open connects and begins to read where the slot stands. The server ends the
// connection of a reader that it has not heard of for term, and then the slot is free.
func open(ctx context.Context, cfg *pgx.ConnConfig, l Lane, term time.Duration, ahead int) (*stream, error) {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	cfg.RuntimeParams["replication"] = "database"
	cfg.RuntimeParams["wal_sender_timeout"] = strconv.FormatInt(term.Milliseconds(), 10)
	conn, err := pgconn.ConnectConfig(ctx, &cfg.Config)
	if err != nil {
		return nil, fmt.Errorf("cdc: %w", err)
	}
	slot, err := startReading(ctx, conn, l)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("cdc: %w", err), conn.Close(ctx))
	}
	s := &stream{conn: conn, slot: slot, items: make(chan *item, ahead), failed: make(chan struct{}), term: term,
		decoder: decoder{lane: l, relations: map[uint32]*pglogrepl.RelationMessage{}}}
	// Not the caller's context: the position is reported until the last batch is over.
	reading, stop := context.WithCancel(context.WithoutCancel(ctx))
	s.stop = stop
	s.running.Go(func() {
		s.err = s.read(reading)
		close(s.failed)
	})
	s.running.Go(func() { s.report(reading) })
	return s, nil
}

// startReading begins where the slot stands, and returns its name.
func startReading(ctx context.Context, conn *pgconn.PgConn, l Lane) (slot string, err error) {
	results, err := conn.Exec(ctx, askNumber).ReadAll() // this kind of connection knows the simple protocol only
	if err != nil {
		return "", err
	}
	slot = l.slot(string(results[0].Rows[0][0]))
	// Position 0 is the slot's own.
	return slot, pglogrepl.StartReplication(ctx, conn, slot, 0, pglogrepl.StartReplicationOptions{
		Mode:       pglogrepl.LogicalReplication,
		PluginArgs: []string{"proto_version '1'", "publication_names '" + l.Name() + "'", "messages 'true'"},
	})
}

// close reports the last position and ends the connection.
func (s *stream) close() {
	_ = s.send() // where that fails, what was published since comes again
	s.stop()
	s.running.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	_ = s.conn.Close(ctx)
}

// errUnheard ends the session of a connection that is dead without an error.
var errUnheard = errors.New("cdc: nothing came from the server for twice as long as it waits for a silent reader")

// read receives until the connection or ctx ends. It never waits for a broker, but for
// room among the items: report keeps the connection alive meanwhile.
func (s *stream) read(ctx context.Context) error {
	for {
		m, err := s.receive(ctx)
		if err != nil {
			return fmt.Errorf("cdc: %w", err)
		}
		switch m := m.(type) {
		case *pgproto3.ErrorResponse:
			return fmt.Errorf("cdc: %w", pgconn.ErrorResponseToPgError(m))
		case *pgproto3.CopyDone:
			return errors.New("cdc: the server ended the stream")
		case *pgproto3.CopyData:
			if err := s.data(ctx, m.Data); err != nil {
				return err
			}
		}
	}
}

// receive waits for twice the term and no longer: report asks the server to speak more
// often, and after one term the server has given the slot free. Who waits on reads for
// as long as the operating system holds a dead connection to be alive, which can be hours.
func (s *stream) receive(ctx context.Context) (pgproto3.BackendMessage, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, 2*s.term, errUnheard)
	defer cancel()
	m, err := s.conn.ReceiveMessage(ctx)
	if err != nil && context.Cause(ctx) == errUnheard {
		err = errUnheard
	}
	return m, err
}

func (s *stream) data(ctx context.Context, data []byte) error {
	switch data[0] {
	case pglogrepl.PrimaryKeepaliveMessageByteID:
		m, err := pglogrepl.ParsePrimaryKeepaliveMessage(data[1:])
		if err != nil {
			return err
		}
		s.keepalive(m)
		if m.ReplyRequested {
			return s.send()
		}
	case pglogrepl.XLogDataByteID:
		m, err := pglogrepl.ParseXLogData(data[1:])
		if err != nil {
			return err
		}
		it, err := s.decoder.decode(m.WALData)
		if err != nil || it == nil {
			return err
		}
		select {
		case s.items <- it:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// keepalive takes note of how far the server has read. That much of the log holds
// nothing for us that has not come yet; a slot which is not told so keeps it for ever.
// Where there is no room another one follows.
func (s *stream) keepalive(m pglogrepl.PrimaryKeepaliveMessage) {
	select {
	case s.items <- &item{upTo: m.ServerWALEnd, done: true}:
	default:
	}
}

// report sends the position when it has changed, and often enough to stay connected.
func (s *stream) report(ctx context.Context) {
	tick := time.NewTicker(min(reportEvery, s.term/4))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		s.sending.Lock()
		due := s.sent != s.confirmed.Load() || time.Since(s.askedAt) > s.term/4
		s.sending.Unlock()
		if due && s.send() != nil {
			_ = s.conn.Conn().Close() // read meets the same connection, and says why
			return
		}
	}
}

// send reports the position now, and asks for an answer when none was asked for lately.
// Before the first position it only says that we are alive.
func (s *stream) send() error {
	s.sending.Lock()
	defer s.sending.Unlock()
	at, ask := s.confirmed.Load(), time.Since(s.askedAt) > s.term/4
	_ = s.conn.Conn().SetWriteDeadline(time.Now().Add(s.term)) // a connection that takes no deadline is broken anyway
	err := pglogrepl.SendStandbyStatusUpdate(context.Background(), s.conn,
		pglogrepl.StandbyStatusUpdate{WALWritePosition: pglogrepl.LSN(at), ReplyRequested: ask})
	if err != nil {
		return err
	}
	if s.sent = at; ask {
		s.askedAt = time.Now()
	}
	return nil
}

// confirm notes that everything before a position is published. It never goes back.
func (s *stream) confirm(at pglogrepl.LSN) {
	if uint64(at) > s.confirmed.Load() {
		s.confirmed.Store(uint64(at))
	}
}
