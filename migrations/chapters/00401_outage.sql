-- Chapter 4: when a row is due again, and what the relay of core/outbox carries
-- beside the payload. The index gets the bus in front: while one bus is down its
-- rows pile up, and the claims of the others must not have to read past them.

-- +goose Up
ALTER TABLE outbox
    ADD COLUMN key             TEXT        NOT NULL DEFAULT '',
    ADD COLUMN headers         JSONB       CHECK (jsonb_typeof(headers) = 'object'
        -- A relay that meets another type of value can neither send nor skip it. strict,
        -- or else a list of strings would pass for a string.
        AND NOT jsonb_path_exists(headers, 'strict $.* ? (@.type() != "string")')),
    ADD COLUMN next_attempt_at TIMESTAMPTZ NOT NULL DEFAULT now();
DROP INDEX outbox_pending;
CREATE INDEX outbox_pending ON outbox (bus, id) WHERE status = 'pending';
COMMENT ON COLUMN outbox.key IS 'Ordering key: messages of one key keep their order where the bus can do so. Empty: none is asked for.';
COMMENT ON COLUMN outbox.headers IS 'Headers that travel beside the payload, an object of strings; NULL: none.';
COMMENT ON COLUMN outbox.next_attempt_at IS 'Not to be claimed before. Outside the index: few rows wait, and changing it would cost an index entry each time.';

CREATE TABLE retries (
    id         BIGSERIAL   PRIMARY KEY,
    outbox_id  BIGINT      NOT NULL,
    event_id   UUID        NOT NULL,
    attempts   INT         NOT NULL,
    last_error TEXT,
    by         TEXT        NOT NULL,
    at         TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX retries_row ON retries (outbox_id);
COMMENT ON TABLE  retries IS 'Who made a failed row pending again, and when. Kept when the row itself is purged.';
COMMENT ON COLUMN retries.id IS 'Order of the retries.';
COMMENT ON COLUMN retries.outbox_id IS 'The row. Deliberately no foreign key: sent rows are purged, this record is not.';
COMMENT ON COLUMN retries.event_id IS 'Its event.';
COMMENT ON COLUMN retries.attempts IS 'How many attempts it had spent, which the retry set back to 0.';
COMMENT ON COLUMN retries.last_error IS 'Why it had failed.';
COMMENT ON COLUMN retries.by IS 'Who asked for it; the database user where nobody said.';
COMMENT ON COLUMN retries.at IS 'When it was asked for.';

-- +goose Down
DROP TABLE retries;
DROP INDEX outbox_pending;
ALTER TABLE outbox DROP COLUMN key, DROP COLUMN headers, DROP COLUMN next_attempt_at;
CREATE INDEX outbox_pending ON outbox (id) WHERE status = 'pending';
