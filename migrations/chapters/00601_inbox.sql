-- Chapter 6: the listener recognises repeats. A delivery is written down first, and
-- the unique key decides whether it is the first one; what no attempt could handle
-- is kept with its reason until a person replays it.

-- +goose Up
DROP INDEX processed_event;
ALTER TABLE processed ADD CONSTRAINT processed_once UNIQUE (event_id, consumer);
COMMENT ON TABLE  processed IS 'The listener''s own record: one row for every event and consumer, written in the transaction of the effect or of the dead letter.';
COMMENT ON COLUMN processed.event_id IS 'The event as the message named it. Unique together with consumer; not a foreign key.';
COMMENT ON COLUMN processed.deliveries IS 'How many deliveries this row stands for: the first one, and those that were absorbed without effect.';
COMMENT ON COLUMN processed.at IS 'When the event was handled, or given up; a replay that succeeds sets it anew.';

CREATE TABLE dead_letters (
    id         BIGSERIAL   PRIMARY KEY,
    event_id   UUID,
    message_id TEXT        NOT NULL,
    consumer   TEXT        NOT NULL,
    bus        TEXT        NOT NULL,
    topic      TEXT        NOT NULL,
    key        TEXT        NOT NULL,
    payload    BYTEA       NOT NULL,
    headers    JSON        NOT NULL,
    reason     TEXT        NOT NULL,
    attempts   INT         NOT NULL CHECK (attempts >= 0),
    status     TEXT        NOT NULL DEFAULT 'dead' CHECK (status IN ('dead', 'requested', 'replayed')),
    first_at   TIMESTAMPTZ NOT NULL,
    failed_at  TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp(),
    UNIQUE (event_id, consumer)
);
CREATE INDEX dead_letters_requested ON dead_letters (id) WHERE status = 'requested';
COMMENT ON TABLE  dead_letters IS 'Messages that a consumer could not handle, as they came. Nothing removes a row.';
COMMENT ON COLUMN dead_letters.id IS 'The number by which a person replays it; the order of giving up.';
COMMENT ON COLUMN dead_letters.event_id IS 'The event. NULL when the message named none that is a UUID.';
COMMENT ON COLUMN dead_letters.message_id IS 'What the message gave as its id, made legible.';
COMMENT ON COLUMN dead_letters.consumer IS 'Which listener gave it up.';
COMMENT ON COLUMN dead_letters.bus IS 'The bus that delivered it.';
COMMENT ON COLUMN dead_letters.topic IS 'The stream of that bus.';
COMMENT ON COLUMN dead_letters.key IS 'Its ordering key, made legible.';
COMMENT ON COLUMN dead_letters.payload IS 'Its bytes as they came; they need not be JSON, nor text.';
COMMENT ON COLUMN dead_letters.headers IS 'Its headers, an object of strings. JSON and not JSONB, which cannot hold a zero byte.';
COMMENT ON COLUMN dead_letters.reason IS 'What the last attempt said.';
COMMENT ON COLUMN dead_letters.attempts IS 'How often the handler was tried, replays included. 0 when it never was, because the message has no usable id.';
COMMENT ON COLUMN dead_letters.status IS 'dead: waits for a person. requested: a person asked for a replay, a consumer will run it. replayed: handled after all.';
COMMENT ON COLUMN dead_letters.first_at IS 'When its first attempt began.';
COMMENT ON COLUMN dead_letters.failed_at IS 'When it was given up, the last time.';

CREATE TABLE replays (
    id           BIGSERIAL   PRIMARY KEY,
    dead_letter  BIGINT      NOT NULL REFERENCES dead_letters,
    requested_by TEXT        NOT NULL,
    requested_at TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp(),
    outcome      TEXT        CHECK (outcome IN ('replayed', 'dead')),
    ended_at     TIMESTAMPTZ,
    CHECK ((outcome IS NULL) = (ended_at IS NULL))
);
CREATE INDEX replays_of ON replays (dead_letter);
COMMENT ON TABLE  replays IS 'Who asked for the replay of a dead letter, when, and what came of it.';
COMMENT ON COLUMN replays.id IS 'The order of asking.';
COMMENT ON COLUMN replays.dead_letter IS 'The dead letter.';
COMMENT ON COLUMN replays.requested_by IS 'Who asked, as the caller said.';
COMMENT ON COLUMN replays.requested_at IS 'When.';
COMMENT ON COLUMN replays.outcome IS 'replayed: handled. dead: failed again. NULL: not over yet.';
COMMENT ON COLUMN replays.ended_at IS 'When it was over.';

-- +goose Down
DROP TABLE replays, dead_letters;
ALTER TABLE processed DROP CONSTRAINT processed_once;
CREATE INDEX processed_event ON processed (event_id);
