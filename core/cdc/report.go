package cdc

import (
	"context"
	"time"

	"github.com/jackc/pglogrepl"
)

// report sends the position when it has changed, and often enough to stay connected. It
// gives up a server that is silent although it was asked to answer.
func (s *stream) report(ctx context.Context) {
	tick := time.NewTicker(min(reportEvery, s.term/4))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if s.silent() {
			s.stop(errUnheard)
			return
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
