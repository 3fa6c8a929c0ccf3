-- Chapter 9, the variant that recovers: what its coordinator has decided, written down
-- before it acts. It has to hold the message as well, for nobody can read the order
-- while its transaction is prepared. Whoever recognises the outbox in it is right.

-- +goose Up
CREATE TABLE decisions (
    event_id UUID        PRIMARY KEY,
    decision TEXT        NOT NULL CHECK (decision IN ('commit', 'abort')),
    taken    BOOLEAN     NOT NULL DEFAULT false,
    bus      TEXT        NOT NULL,
    topic    TEXT        NOT NULL,
    key      TEXT        NOT NULL,
    payload  JSONB       NOT NULL CHECK (jsonb_typeof(payload) = 'object'),
    at       TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp()
);
COMMENT ON TABLE  decisions IS 'The log of the coordinator. A prepared order without a row here is rolled back, presumed abort; beside coordinators that write nothing down it waits for a person.';
COMMENT ON COLUMN decisions.event_id IS 'The event, and so the prepared transaction. The key decides a race: the second decision comes too late.';
COMMENT ON COLUMN decisions.decision IS 'commit: publish until the broker has acknowledged, then COMMIT PREPARED. abort: ROLLBACK PREPARED.';
COMMENT ON COLUMN decisions.taken IS 'Somebody who recovers acts on it: it cannot be taken back any more.';
COMMENT ON COLUMN decisions.bus IS 'The bus that carries the event.';
COMMENT ON COLUMN decisions.topic IS 'The stream of that bus.';
COMMENT ON COLUMN decisions.key IS 'The ordering key.';
COMMENT ON COLUMN decisions.payload IS 'The message, to be published again by whoever recovers.';
COMMENT ON COLUMN decisions.at IS 'When it was decided.';

-- +goose Down
DROP TABLE decisions;
