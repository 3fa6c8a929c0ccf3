-- Chapter 1: an order, and what came of it. No foreign key leads from emails or
-- processed to orders: a listener that is told of an order which does not exist
-- (a phantom) has to be able to write that down.

-- +goose Up
CREATE TABLE orders (
    id         BIGSERIAL   PRIMARY KEY,
    event_id   UUID        NOT NULL UNIQUE,
    user_id    TEXT        NOT NULL,
    items      JSONB       NOT NULL CHECK (jsonb_typeof(items) = 'array'),
    bus        TEXT        NOT NULL,
    created_at TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp()
);
COMMENT ON TABLE  orders IS 'What the customers ordered: the business data.';
COMMENT ON COLUMN orders.id IS 'Order of insertion. Gaps are rollbacks, not losses.';
COMMENT ON COLUMN orders.event_id IS 'The event that tells of this order; a second order with the same id is refused.';
COMMENT ON COLUMN orders.user_id IS 'Who ordered, 1 to 200 characters.';
COMMENT ON COLUMN orders.items IS 'What was ordered: an array of strings.';
COMMENT ON COLUMN orders.bus IS 'The bus that carries the event of this order.';
COMMENT ON COLUMN orders.created_at IS 'When the row was written. clock_timestamp(), because now() is when the transaction began.';

CREATE TABLE processed (
    id         BIGSERIAL   PRIMARY KEY,
    event_id   UUID        NOT NULL,
    consumer   TEXT        NOT NULL,
    bus        TEXT        NOT NULL,
    deliveries INT         NOT NULL DEFAULT 1 CHECK (deliveries >= 1),
    at         TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX processed_event ON processed (event_id);
COMMENT ON TABLE  processed IS 'The listener''s own record: a row for every delivery it handled.';
COMMENT ON COLUMN processed.id IS 'Order of handling.';
COMMENT ON COLUMN processed.event_id IS 'The event as the message named it. Deliberately not unique, not a foreign key.';
COMMENT ON COLUMN processed.consumer IS 'Which listener handled it.';
COMMENT ON COLUMN processed.bus IS 'The bus that delivered it.';
COMMENT ON COLUMN processed.deliveries IS 'How many deliveries this row stands for; 1 until chapter 6.';
COMMENT ON COLUMN processed.at IS 'When the handling was written down.';

CREATE TABLE emails (
    id        BIGSERIAL   PRIMARY KEY,
    event_id  UUID        NOT NULL,
    recipient TEXT        NOT NULL,
    bus       TEXT        NOT NULL,
    sent_at   TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX emails_event ON emails (event_id);
COMMENT ON TABLE  emails IS 'The effect: a row is a confirmation email in the customer''s inbox.';
COMMENT ON COLUMN emails.id IS 'Order of sending.';
COMMENT ON COLUMN emails.event_id IS 'The event that made the listener send it. Two rows with one event_id are two emails.';
COMMENT ON COLUMN emails.recipient IS 'The user, as the message named them.';
COMMENT ON COLUMN emails.bus IS 'The bus that carried the event.';
COMMENT ON COLUMN emails.sent_at IS 'When it was sent.';

-- +goose Down
DROP TABLE emails, processed, orders;
