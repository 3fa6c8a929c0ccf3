-- Chapter 9: a row that every order of a customer changes, and so locks until its
-- transaction ends. A prepared transaction keeps that lock until somebody ends it.
-- The triggers of chapter 7 go: a transaction that has notified cannot be prepared.

-- +goose Up
CREATE TABLE customers (
    user_id TEXT   PRIMARY KEY,
    orders  BIGINT NOT NULL CHECK (orders >= 1)
);
COMMENT ON TABLE  customers IS 'A row for everybody who has ordered.';
COMMENT ON COLUMN customers.user_id IS 'Who, as in orders.';
COMMENT ON COLUMN customers.orders IS 'How many orders are committed. Counting one locks the row until the order''s transaction ends.';

DROP TRIGGER IF EXISTS outbox_retried ON outbox;
DROP TRIGGER IF EXISTS outbox_written ON outbox;

-- +goose Down
CREATE TRIGGER outbox_written AFTER INSERT ON outbox
    FOR EACH STATEMENT EXECUTE FUNCTION outbox_notify();
CREATE TRIGGER outbox_retried AFTER UPDATE OF status ON outbox
    FOR EACH ROW WHEN (OLD.status = 'failed' AND NEW.status = 'pending') EXECUTE FUNCTION outbox_notify();
DROP TABLE customers;
