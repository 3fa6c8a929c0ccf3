-- Chapter 5: who has which rows in hand, and until when. A claim is one row in a table
-- of its own and writes nothing into the outbox: a lease in each row would cost a
-- second version of every event.

-- +goose Up
-- Number 00501 had the lease in each row. Where it was applied its columns go, and what
-- was leased is pending.
ALTER TABLE outbox DROP COLUMN IF EXISTS lease_until, DROP COLUMN IF EXISTS lease_token;
DROP SEQUENCE IF EXISTS outbox_leases;

-- Half of each page stays free, so that the version that says "sent" lands beside the
-- pending one and a batch dirties half as many pages.
ALTER TABLE outbox SET (fillfactor = 50);

CREATE TABLE outbox_claims (
    token       BIGINT      PRIMARY KEY,
    bus         TEXT        NOT NULL,
    first_id    BIGINT      NOT NULL,
    last_id     BIGINT      NOT NULL,
    lease_until TIMESTAMPTZ NOT NULL,
    CHECK (first_id <= last_id)
);
COMMENT ON TABLE  outbox_claims IS 'Claims under way. A worker deletes its own when it has written down what became of the rows; one whose lease is over is deleted by the next worker.';
COMMENT ON COLUMN outbox_claims.token IS 'A random number, for one claim only. What became of a claim''s rows is written down only while its token is here.';
COMMENT ON COLUMN outbox_claims.bus IS 'Whose rows.';
COMMENT ON COLUMN outbox_claims.first_id IS 'Nobody else claims pending rows of the bus from this id on …';
COMMENT ON COLUMN outbox_claims.last_id IS '… up to this one, those included that a slower transaction commits later.';
COMMENT ON COLUMN outbox_claims.lease_until IS 'From this moment of the database''s clock on the next worker may end the claim.';

-- +goose Down
ALTER TABLE outbox RESET (fillfactor);
DROP TABLE outbox_claims;
