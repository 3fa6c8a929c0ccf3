-- Chapter 5: who has a row in hand, and until when. Both columns stay outside every
-- index and its predicate, and pages are left half empty: then a claim can write the
-- row's new version into the same page, without a new entry in any index.

-- +goose Up
CREATE SEQUENCE outbox_leases;
ALTER TABLE outbox
    ADD COLUMN lease_until TIMESTAMPTZ,
    ADD COLUMN lease_token BIGINT,
    ADD CONSTRAINT outbox_lease_whole CHECK ((lease_until IS NULL) = (lease_token IS NULL)),
    ADD CONSTRAINT outbox_lease_pending CHECK (lease_until IS NULL OR status = 'pending'),
    SET (fillfactor = 45);
COMMENT ON SEQUENCE outbox_leases IS 'Tokens of claims, each used once.';
COMMENT ON COLUMN outbox.lease_until IS 'Nobody else claims the row before this moment of the database''s clock; NULL: nobody has it.';
COMMENT ON COLUMN outbox.lease_token IS 'The claim that has the row. What became of it is written down only by who knows the current one.';

-- +goose Down
ALTER TABLE outbox DROP COLUMN lease_until, DROP COLUMN lease_token, RESET (fillfactor);
DROP SEQUENCE outbox_leases;
