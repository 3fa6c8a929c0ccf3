package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"outboxplayground/core/audit"
	"outboxplayground/core/bus"
	"outboxplayground/core/lab"
	"outboxplayground/core/pg"
	"outboxplayground/core/shop"
	"outboxplayground/infra/servers"
)

func auditCommand() *cobra.Command {
	var chapter int
	cmd := &cobra.Command{
		Use:   "audit EVENT",
		Short: "what became of one event, read from the tables",
		Long: "What became of one event, read from the tables of a running playground or of\n" +
			"DATABASE_URL. Exit code 0: processed once; 1: lost, duplicated, phantom or stuck;\n" +
			"2: it can still come; 3: the audit could not be made.",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := uuid.Parse(args[0])
			if err != nil {
				return fmt.Errorf("%q is not an event id: it is the UUID that place-order answers with", args[0])
			}
			return auditEvent(cmd.Context(), cmd.OutOrStdout(), chapter, id.String())
		},
	}
	cmd.Flags().IntVar(&chapter, "chapter", 0, "look only in this chapter (default: in all, the outbox first)")
	return cmd
}

func auditEvent(ctx context.Context, out io.Writer, chapter int, id string) error {
	f, err := joinFleet(&printer{to: io.Discard})
	if err != nil {
		return err
	}
	db := f.bring(ctx, "postgres")
	if db.Mode == servers.Off {
		return errors.New(db.Note)
	}
	for _, c := range newestFirst() {
		if chapter != 0 && c.Number != chapter {
			continue
		}
		trail, err := auditIn(ctx, f, db.URL, c, id)
		if errors.Is(err, audit.ErrUnknown) {
			continue
		}
		if err != nil {
			return err
		}
		if err := trail.WriteText(out); err != nil {
			return err
		}
		return verdictExit(trail.Valid)
	}
	return fmt.Errorf("no chapter knows event %s: it was never placed, or it was rolled back", id)
}

// newestFirst lists the chapters backwards: the outbox is where most people are.
func newestFirst() []lab.Chapter {
	all := contents()
	slices.Reverse(all)
	return all
}

func auditIn(ctx context.Context, f *fleet, url string, c lab.Chapter, id string) (audit.Trail, error) {
	pool, err := pg.Open(url, c.Schema(), pg.Options{MaxConns: 1})
	if err != nil {
		return audit.Trail{}, err
	}
	defer pool.Close()
	source := c.Source(pool)
	source.Elsewhere = true
	return audit.Event(ctx, source, f.backlog(c), id)
}

// backlog asks a bus what it still holds, through a connection made for the question.
func (f *fleet) backlog(c lab.Chapter) audit.Backlog {
	return func(ctx context.Context, _ int, name string) (int64, error) {
		if name == inMemory {
			return 0, errors.New("only the process of serve can see into the bus in memory: ask its /audit/event")
		}
		ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		info := f.bring(ctx, name)
		if info.Mode == servers.Off {
			return 0, errors.New(info.Note)
		}
		b, err := openBus(name, info.URL)(ctx, lab.BusOptions{Schema: c.Schema()})
		if err != nil {
			return 0, err
		}
		defer b.Close()
		counter, ok := b.(bus.Backlogger)
		if !ok {
			return 0, fmt.Errorf("%s cannot tell its backlog", name)
		}
		return counter.Backlog(ctx, c.Topic, shop.Group)
	}
}

// verdictExit turns a verdict into the exit code of the command.
func verdictExit(v audit.Validity) error {
	switch v {
	case audit.True:
		return nil
	case audit.False:
		return &exitError{code: exitNotValid}
	default:
		return &exitError{code: exitUnknown}
	}
}
