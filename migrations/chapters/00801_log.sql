-- Chapter 8: the relay reads the log, so nobody claims and nobody marks. What a row can
-- still say of itself is where in the log it was written. The index of pending rows stays
-- for the chapters that claim; here every row is in it.

-- +goose Up
-- The default of a new row; rows that are there already get the position of this moment.
ALTER TABLE outbox ADD COLUMN lsn PG_LSN NOT NULL DEFAULT pg_current_wal_insert_lsn();
-- Positions grow with the table, so a range of pages is described by its least and its
-- greatest one. An insert into such an index costs next to nothing.
CREATE INDEX outbox_lsn ON outbox USING brin (lsn) WITH (pages_per_range = 16);
COMMENT ON COLUMN outbox.lsn IS 'The position of the log when the row was written, or was given back by a person. Its COMMIT is behind that.';

CREATE TABLE slots (
    id      BIGSERIAL   PRIMARY KEY,
    bus     TEXT        NOT NULL,
    since   PG_LSN,
    made_at TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp()
);
COMMENT ON TABLE  slots IS 'When the slot of a bus was made. A second row is a gap: the slot before it was gone.';
COMMENT ON COLUMN slots.id IS 'Order of making.';
COMMENT ON COLUMN slots.bus IS 'The bus whose events it delivers.';
COMMENT ON COLUMN slots.since IS 'Where it begins. What was committed before, it never delivers. NULL: it is being made, or its maker died over that; the next one fills it in.';
COMMENT ON COLUMN slots.made_at IS 'When it was made.';

-- +goose Down
DROP TABLE slots;
DROP INDEX outbox_lsn;
ALTER TABLE outbox DROP COLUMN lsn;
