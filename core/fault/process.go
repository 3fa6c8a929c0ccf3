package fault

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

// ErrGone is what a process fault returns when there was nothing left to strike:
// the process does not exist, or is dead and only waits to be reaped.
var ErrGone = errors.New("fault: process is gone")

// pollEvery is how often a process is looked at until a signal has had its effect.
const pollEvery = 2 * time.Millisecond

// Kill sends SIGKILL and returns when the process is dead: gone, or a zombie that
// its parent has not waited for yet. None of its code runs after that.
//
// Here as in Stop and Continue, the process should be a child that was not waited
// for, or its number might belong to another one by now. Processes 1 and below,
// and the caller's own, are refused. At ctx's end the error says what was seen.
func Kill(ctx context.Context, pid int) error {
	return strike(ctx, pid, syscall.SIGKILL, func(s state) bool { return s == dead })
}

// Stop sends SIGSTOP and returns when all threads of the process stand still.
func Stop(ctx context.Context, pid int) error {
	return strike(ctx, pid, syscall.SIGSTOP, func(s state) bool { return s == stopped })
}

// Continue sends SIGCONT and returns when the process runs, or may run, again.
func Continue(ctx context.Context, pid int) error {
	return strike(ctx, pid, syscall.SIGCONT, func(s state) bool { return s == running })
}

// Crash sends SIGKILL to the own process and does not return: no deferred call, no
// flush, no further statement runs. It fits checkpoint.Plan.Do.
func Crash(context.Context) error {
	if err := syscall.Kill(os.Getpid(), syscall.SIGKILL); err != nil {
		return err
	}
	select {}
}

// state is what a fault needs to know about a process.
type state string

const (
	running state = "running" // or sleeping: not stopped
	stopped state = "stopped"
	dead    state = "dead"
)

// strike sends the signal and waits for the state that shows that it worked.
func strike(ctx context.Context, pid int, sig syscall.Signal, reached func(state) bool) error {
	if pid <= 1 || pid == os.Getpid() {
		return fmt.Errorf("fault: will not send %v to process %d", sig, pid)
	}
	now, err := look(ctx, pid)
	if err != nil {
		return err
	}
	if now == dead {
		return fmt.Errorf("%w: %d", ErrGone, pid)
	}
	if err := syscall.Kill(pid, sig); err != nil {
		return fmt.Errorf("fault: %v to process %d: %w", sig, pid, err)
	}
	return await(ctx, pid, sig, reached)
}

func await(ctx context.Context, pid int, sig syscall.Signal, reached func(state) bool) error {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		now, err := look(ctx, pid)
		switch {
		case err != nil:
			return err
		case reached(now):
			return nil
		case now == dead:
			return fmt.Errorf("%w: %d died on %v", ErrGone, pid, sig)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("fault: process %d is %s after %v: %w", pid, now, sig, ctx.Err())
		}
	}
}
