package bus

import (
	"context"
	"time"
)

// Pause waits for d, or less when ctx ends, which is false.
func Pause(ctx context.Context, d time.Duration) bool { return PauseUntil(ctx, nil, d) }

// PauseUntil waits for d, or less when ctx ends or over is closed, which is false.
func PauseUntil(ctx context.Context, over <-chan struct{}, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	case <-over:
		return false
	}
}
