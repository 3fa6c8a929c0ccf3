package main

import (
	"context"
	"encoding/json"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

// job is one event; its worker publishes it.
type job struct {
	Event json.RawMessage `json:"event"`
}

// Kind implements river.JobArgs.
func (job) Kind() string { return "event" }

type publishJob struct {
	river.WorkerDefaults[job]
	to *target
}

// Work implements river.Worker.
func (w *publishJob) Work(ctx context.Context, j *river.Job[job]) error {
	return w.to.publish(ctx, j.Args.Event)
}

// River takes at most its workers' number of jobs in each cooldown. Its defaults are
// 100 workers and 100 ms, that is 1,000 jobs a second.
const (
	riverWorkers  = 500
	riverCooldown = time.Millisecond
	riverPoll     = 20 * time.Millisecond
	riverSettings = "500 workers, cooldown 1 ms, 8 confirm channels on RabbitMQ"
)

// riverDone is true when no job waits or works. A job that failed waits to be tried
// again, so it is not done.
const riverDone = `SELECT NOT EXISTS (SELECT FROM river_job WHERE state NOT IN ('completed', 'discarded', 'cancelled'))`

// runRiver drains rows events, one job each, and returns the rate until the last job
// is marked as completed.
func runRiver(ctx context.Context, pool *pgxpool.Pool, to *target, rows int) (perSecond float64, err error) {
	quiet := slog.New(slog.DiscardHandler)
	driver := riverpgxv5.New(pool)
	migrator, err := rivermigrate.New(driver, &rivermigrate.Config{Logger: quiet})
	if err != nil {
		return 0, err
	}
	if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return 0, err
	}
	workers := river.NewWorkers()
	river.AddWorker(workers, &publishJob{to: to})
	client, err := river.NewClient(driver, &river.Config{
		Workers: workers, Logger: quiet, FetchCooldown: riverCooldown, FetchPollInterval: riverPoll,
		Queues: map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: riverWorkers}},
	})
	if err != nil {
		return 0, err
	}
	for first := 0; first < rows; first += 1000 {
		var jobs []river.InsertManyParams
		for n := first; n < min(first+1000, rows); n++ {
			jobs = append(jobs, river.InsertManyParams{Args: job{payload(n)}})
		}
		if _, err := client.InsertMany(ctx, jobs); err != nil {
			return 0, err
		}
	}
	if _, err := pool.Exec(ctx, `VACUUM ANALYZE river_job`); err != nil {
		return 0, err
	}
	begun := time.Now()
	if err := client.Start(ctx); err != nil {
		return 0, err
	}
	err = until(ctx, pool, riverDone)
	perSecond = float64(rows) / time.Since(begun).Seconds()
	if stopped := client.StopAndCancel(context.WithoutCancel(ctx)); err == nil {
		err = stopped
	}
	return perSecond, err
}
