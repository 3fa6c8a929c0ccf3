-- What the lab measured, and what a run may leave behind if its process dies.

-- +goose Up
CREATE TABLE runs (
    id          TEXT        PRIMARY KEY,
    chapter     INT         NOT NULL,
    variant     TEXT        NOT NULL,
    bus         TEXT        NOT NULL,
    fault       TEXT        NOT NULL,
    standard    BOOLEAN     NOT NULL,
    report      JSONB       NOT NULL,
    trails      JSONB       NOT NULL,
    finished_at TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX runs_cell ON runs (chapter, variant, bus, fault, finished_at DESC) WHERE standard;
CREATE INDEX runs_trails ON runs USING gin (trails jsonb_path_ops);
COMMENT ON TABLE  runs IS 'Finished experiments: they outlive the schema they were made in.';
COMMENT ON COLUMN runs.id IS 'The run, as /runs/{id} and its schema run_{id} name it.';
COMMENT ON COLUMN runs.chapter IS 'The chapter that was tried.';
COMMENT ON COLUMN runs.variant IS 'Its variant.';
COMMENT ON COLUMN runs.bus IS 'The bus it ran on.';
COMMENT ON COLUMN runs.fault IS 'What was broken.';
COMMENT ON COLUMN runs.standard IS 'Whether declarations speak of runs like this: 47 orders, no seed.';
COMMENT ON COLUMN runs.report IS 'The report, as run --json prints it.';
COMMENT ON COLUMN runs.trails IS 'Trail, answers and timeline of every event, in the order of the run.';
COMMENT ON COLUMN runs.finished_at IS 'When the verdict was made.';

CREATE TABLE traces (
    schema_name TEXT        NOT NULL,
    bus         TEXT        NOT NULL,
    topic       TEXT        NOT NULL,
    noted_at    TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (schema_name, bus, topic)
);
COMMENT ON TABLE  traces IS 'What runs have made on brokers, noted before it is made and until it is removed.';
COMMENT ON COLUMN traces.schema_name IS 'The run''s schema, which is the prefix of its names on the broker.';
COMMENT ON COLUMN traces.bus IS 'The bus.';
COMMENT ON COLUMN traces.topic IS 'The topic, without the prefix.';
COMMENT ON COLUMN traces.noted_at IS 'When it was noted.';

-- +goose Down
DROP TABLE traces, runs;
