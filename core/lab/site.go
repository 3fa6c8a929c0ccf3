package lab

import (
	"context"
	"errors"

	"outboxplayground/core/pg"
)

// Site is the sign of life of something that is no run and makes what a run makes: a
// schema, and topics, slots and prepared transactions that have its name in front.
// As long as the process lives and has not closed it, no sweep touches them.
type Site struct {
	lock   *lock
	schema string
}

// NoteSite notes what is about to be made, so that a Sweep removes it when the process
// dies first. The topics' only group is shop.Group; there may be none. Close the Site.
func NoteSite(ctx context.Context, databaseURL, schema, busName string, topics ...string) (*Site, error) {
	if err := pg.MigratePlayground(ctx, databaseURL); err != nil {
		return nil, err
	}
	l, err := takeLock(ctx, databaseURL, schema)
	if err != nil {
		return nil, err
	}
	if len(topics) == 0 {
		busName, topics = "inmemory", []string{""} // a bus on which nothing has to be removed
	}
	for _, topic := range topics {
		if err := remember(ctx, l.conn, schema, busName, topic); err != nil {
			return nil, errors.Join(err, l.release(ctx))
		}
	}
	return &Site{l, schema}, nil
}

// Close removes the schema and everything in the database that carries its name, and
// the notes if the topics are gone; else the notes stay for the next sweep. It has a
// time of its own, 20 s: a silent broker may have used up ctx's.
func (s *Site) Close(ctx context.Context, topicsGone bool) error {
	if s == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanUpLimit)
	defer cancel()
	err := dropAll(ctx, s.lock.conn, s.schema)
	if err == nil && topicsGone {
		_, err = s.lock.conn.Exec(ctx, forgetTraces, s.schema)
	}
	return errors.Join(err, s.lock.release(ctx))
}
