package cdc

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"outboxplayground/core/bus"
)

// Remove drops the slot and the publication of a lane, with all that the slot has not
// delivered: it is for lanes that are over. It waits until ctx ends for a reader to go.
func Remove(ctx context.Context, cfg *pgx.ConnConfig, l Lane) error {
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return fmt.Errorf("cdc: %s: %w", l.Name(), err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	var number string
	if err := conn.QueryRow(ctx, askNumber).Scan(&number); err != nil {
		return fmt.Errorf("cdc: %s: %w", l.Name(), err)
	}
	for {
		err := l.clear(ctx, conn, l.slot(number))
		var said *pgconn.PgError
		if !errors.As(err, &said) || said.Code != objectInUse {
			return err
		}
		if !bus.Pause(ctx, takeOver/10) {
			return errors.Join(err, ctx.Err())
		}
	}
}
