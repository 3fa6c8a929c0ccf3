-- What outlives a chapter's schema. A pause goes through Postgres so that it
-- reaches every worker on every machine.

-- +goose Up
CREATE TABLE pauses (
    schema_name TEXT        PRIMARY KEY,
    paused      BOOLEAN     NOT NULL,
    changed_at  TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp()
);
COMMENT ON TABLE  pauses IS 'Whether the outbox workers of a schema may claim rows.';
COMMENT ON COLUMN pauses.schema_name IS 'The chapter''s schema; no row means not paused.';
COMMENT ON COLUMN pauses.paused IS 'True while claiming is forbidden.';
COMMENT ON COLUMN pauses.changed_at IS 'When it was last switched.';

-- +goose Down
DROP TABLE pauses;
