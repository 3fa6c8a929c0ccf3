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

	heard   *atomic.Int64 // when a byte came last, or was first waited for: Unix nanoseconds
	waiting atomic.Bool   // for the server

	stop    context.CancelCauseFunc
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
	heard := &atomic.Int64{}
	cfg.DialFunc = listening(cfg.DialFunc, heard)
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
		heard: heard, decoder: decoder{lane: l, relations: map[uint32]*pglogrepl.RelationMessage{}}}
	// Not the caller's context: the position is reported until the last batch is over.
	reading, stop := context.WithCancelCause(context.WithoutCancel(ctx))
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
	s.stop(nil)
	s.running.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	_ = s.conn.Close(ctx)
}

// read receives until the connection or ctx ends. It never waits for a broker, but for
// room among the items: report keeps the connection alive meanwhile.
func (s *stream) read(ctx context.Context) error {
	for {
		m, err := s.receive(ctx)
		if err != nil {
			return fmt.Errorf("cdc: %w", errors.Join(context.Cause(ctx), err))
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

func (s *stream) receive(ctx context.Context) (pgproto3.BackendMessage, error) {
	s.heard.Store(time.Now().UnixNano())
	s.waiting.Store(true)
	defer s.waiting.Store(false)
	return s.conn.ReceiveMessage(ctx)
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
// Where there is no room another one follows. Within a transaction it says nothing:
// the events before it are not all that are to be confirmed together.
func (s *stream) keepalive(m pglogrepl.PrimaryKeepaliveMessage) {
	if s.decoder.within {
		return
	}
	select {
	case s.items <- &item{upTo: m.ServerWALEnd, done: true}:
	default:
	}
}
