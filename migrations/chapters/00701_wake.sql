-- Chapter 7: a new row announces itself. The notification goes out with the commit,
-- once for a statement however many rows it wrote, and says nothing: a channel is
-- named after the schema, the payload is empty. What there is to send stands in the
-- table. A channel is not part of a schema: the name keeps those of two schemas apart.

-- +goose Up
-- +goose StatementBegin
CREATE FUNCTION outbox_notify() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify(TG_TABLE_SCHEMA || '.outbox', '');
    RETURN NULL;
END
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION outbox_notify() IS 'Wakes whoever listens on the channel "<schema>.outbox".';

CREATE TRIGGER outbox_written AFTER INSERT ON outbox
    FOR EACH STATEMENT EXECUTE FUNCTION outbox_notify();
-- A person's retry is no insert. Of the updates only those call the function; equal
-- notifications of one transaction are sent once.
CREATE TRIGGER outbox_retried AFTER UPDATE OF status ON outbox
    FOR EACH ROW WHEN (OLD.status = 'failed' AND NEW.status = 'pending') EXECUTE FUNCTION outbox_notify();
COMMENT ON TRIGGER outbox_written ON outbox IS 'Once for a statement, not for a row.';
COMMENT ON TRIGGER outbox_retried ON outbox IS 'A row that is pending again was not inserted.';

-- +goose Down
DROP TRIGGER outbox_retried ON outbox;
DROP TRIGGER outbox_written ON outbox;
DROP FUNCTION outbox_notify();
