-- Chapter 3: the outbox, with the columns of the article. The index is ours: the
-- worker asks for pending rows in the order of id, which an index on
-- (status, created_at) cannot give without sorting every pending row.

-- +goose Up
CREATE TABLE outbox (
    id         BIGSERIAL   PRIMARY KEY,
    event_id   UUID        NOT NULL UNIQUE,
    bus        TEXT        NOT NULL,
    topic      TEXT        NOT NULL DEFAULT 'safe',
    payload    JSONB       NOT NULL CHECK (jsonb_typeof(payload) = 'object'),
    status     TEXT        NOT NULL DEFAULT 'pending' CHECK (status IN ('pending', 'sent', 'failed')),
    attempts   INT         NOT NULL DEFAULT 0 CHECK (attempts >= 0),
    last_error TEXT,
    created_at TIMESTAMPTZ DEFAULT now(),
    sent_at    TIMESTAMPTZ,
    CHECK ((status = 'sent') = (sent_at IS NOT NULL))
);
CREATE INDEX outbox_pending ON outbox (id) WHERE status = 'pending';
COMMENT ON TABLE  outbox IS 'Events that shall be sent, written in the transaction that causes them.';
COMMENT ON COLUMN outbox.id IS 'The order in which the worker takes them. Not the order of commits: a later id may commit first.';
COMMENT ON COLUMN outbox.event_id IS 'The event. UNIQUE, so that a producer which tries twice writes it once.';
COMMENT ON COLUMN outbox.bus IS 'Which bus carries it: rabbitmq, kafka, nats, redis or inmemory. A system with one broker has no such column.';
COMMENT ON COLUMN outbox.topic IS 'Which stream of that bus.';
COMMENT ON COLUMN outbox.payload IS 'The message, a JSON object. JSONB keeps its meaning and its digits, not its spacing.';
COMMENT ON COLUMN outbox.status IS 'pending: to be sent. sent: the broker took it. failed: given up, waiting for a person.';
COMMENT ON COLUMN outbox.attempts IS 'How often a publish has failed.';
COMMENT ON COLUMN outbox.last_error IS 'What the last failed publish said.';
COMMENT ON COLUMN outbox.created_at IS 'When the transaction that wrote it began.';
COMMENT ON COLUMN outbox.sent_at IS 'When the broker''s acknowledgement was written down; set exactly when status is sent.';

-- +goose Down
DROP TABLE outbox;
