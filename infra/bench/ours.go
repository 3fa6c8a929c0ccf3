package main

import (
	"context"

	"outboxplayground/brokers"
	"outboxplayground/core/bench"
	"outboxplayground/core/bus"
)

// Ours keeps its default of one worker; a batch of 500 is what `bench drain` uses.
const (
	ourBatch    = 500
	ourWorkers  = 1
	ourSettings = "batch 500, one worker, leases, fencing and retries on"
)

// drainOurs has the relay of core/outbox drain as many rows; the events are counted
// by a subscriber.
func drainOurs(ctx context.Context, k kind, databaseURL, url string, rows int) (bench.Drained, error) {
	return bench.Drain(ctx, bench.Config{
		DatabaseURL: databaseURL, Bus: k.bus, Rows: rows, Batch: ourBatch, Workers: ourWorkers, PayloadBytes: payloadBytes,
		Open: func(ctx context.Context, prefix string) (bus.Bus, error) {
			cfg := brokers.Config{Config: bus.Config{URL: url, Prefix: prefix, MaxUnacked: ourBatch}}
			cfg.RabbitMQ.Settle, cfg.RabbitMQ.Classic = -1, k.classic
			return brokers.Open(ctx, k.bus, cfg)
		},
	}, func(string) {})
}
