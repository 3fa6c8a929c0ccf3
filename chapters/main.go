// Command chapters is the Outbox Playground: the table of contents of its lessons
// and the program that runs them. It is the only place that sees all the parts,
// and it puts them together by hand.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	dualwrite "outboxplayground/chapters/01-dual-write"
	aftercommit "outboxplayground/chapters/02-after-commit"
	outbox "outboxplayground/chapters/03-outbox"
	outage "outboxplayground/chapters/04-outage-and-retry"
	workers "outboxplayground/chapters/05-many-workers"
	idempotent "outboxplayground/chapters/06-idempotent-consumer"
	wake "outboxplayground/chapters/07-wake-up"
	capture "outboxplayground/chapters/08-change-data-capture"
	twophase "outboxplayground/chapters/09-two-phase-commit"
	"outboxplayground/core/lab"
)

// contents is the table of contents, in reading order.
func contents() []lab.Chapter {
	return []lab.Chapter{
		dualwrite.Chapter(),
		aftercommit.Chapter(),
		outbox.Chapter(),
		outage.Chapter(),
		workers.Chapter(),
		idempotent.Chapter(),
		wake.Chapter(),
		capture.Chapter(),
		twophase.Chapter(),
	}
}

// The exit codes of every command, so that scripts can tell a verdict from a
// command that never ran.
const (
	exitNotValid    = 1
	exitUnknown     = 2
	exitCouldNotRun = 3
)

// exitError carries the exit code that a command wants.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return ""
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

func main() { os.Exit(run()) }

// run returns the exit code. The first signal asks for a graceful stop; after it
// the handler is gone, so that a second one ends the process at once.
func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)
	err := root().ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	code := exitCouldNotRun
	var wanted *exitError
	if errors.As(err, &wanted) {
		code = wanted.code
	}
	if text := err.Error(); text != "" {
		fmt.Fprintln(os.Stderr, "error:", text)
	}
	return code
}

func root() *cobra.Command {
	serve := serveCommand()
	cmd := &cobra.Command{
		Use:   "chapters",
		Short: "Outbox Playground: see what becomes of an event, on five brokers",
		Long: "Outbox Playground: read a chapter, predict what will happen, break it, and read\n" +
			"what was measured. Without a command it serves on http://" + defaultAddr + ".",
		Args:          cobra.NoArgs,
		RunE:          serve.RunE,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	cmd.Flags().AddFlagSet(serve.Flags())
	cmd.AddCommand(serve, listCommand(), auditCommand(), relayCommand(), consumeCommand(),
		doctorCommand(), healthcheckCommand(), runCommand(), benchCommand(), raceCommand(), matrixCommand(), childCommand())
	return cmd
}
