package main

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"outboxplayground/core/audit"
	"outboxplayground/core/lab"
)

// A listener that is kept from working is silent for a long time and loses nothing.
// RabbitMQ does not tell others what it has in hand; in memory nobody else can ask.
func TestASlowListenerIsNoLoss(t *testing.T) {
	for _, busName := range []string{"rabbitmq", inMemory} {
		t.Run(busName, func(t *testing.T) {
			b := newBench(t, busName)
			holder, err := pgx.Connect(t.Context(), b.DatabaseURL)
			if err != nil {
				t.Fatal(err)
			}
			defer holder.Close(t.Context())
			exec := func(sql string) {
				if _, err := holder.Exec(t.Context(), sql); err != nil {
					t.Error(err)
				}
			}
			released := make(chan struct{})
			held := false
			res, err := b.Run(t.Context(), lab.Spec{Chapter: 3, Bus: busName, Orders: 5}, func(p lab.Progress) {
				switch {
				case p.Stage == "running" && !held:
					held = true
					exec("BEGIN")
					exec("LOCK TABLE " + b.schemas(t)[0] + ".emails IN SHARE MODE") // reading goes on, writing waits
				case p.Stage == "waiting":
					time.AfterFunc(5*time.Second, func() { exec("COMMIT"); close(released) })
				}
			})
			if err != nil {
				t.Fatal(err)
			}
			<-released
			if res.Report.Valid != audit.True || res.Report.Measured.Delivered != 5 {
				t.Errorf("valid %s, %+v: %s", res.Report.Valid, res.Report.Measured, res.Report.Why)
			}
			b.nothingLeft(t)
		})
	}
}

// A run of which a process has died that no fault was to strike says nothing about
// the chapter, however well its numbers look.
func TestARunWhoseProcessDiesProvesNothing(t *testing.T) {
	t.Parallel()
	for _, busName := range []string{"redis", inMemory} {
		t.Run(busName, func(t *testing.T) {
			b := newBench(t, busName)
			struck := false
			res, err := b.Run(t.Context(), lab.Spec{Chapter: 3, Bus: busName}, func(p lab.Progress) {
				if p.Stage != "running" || p.Done < 5 || struck {
					return
				}
				struck = true
				if err := syscall.Kill(b.children(t)[0], syscall.SIGKILL); err != nil {
					t.Error(err)
				}
			})
			if err != nil {
				t.Fatal(err)
			}
			if res.Report.Valid != audit.Unknown || !strings.Contains(res.Report.Why, "ended by itself") {
				t.Errorf("valid %s, %+v: %s", res.Report.Valid, res.Report.Measured, res.Report.Why)
			}
			b.nothingLeft(t)
		})
	}
}
