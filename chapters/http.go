package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"outboxplayground/core/lab"
	"outboxplayground/core/web"
)

func (st *stage) server(l net.Listener, stopping <-chan struct{}) *http.Server {
	host, _, _ := net.SplitHostPort(l.Addr().String()) // a listener's address has both
	return &http.Server{
		Handler: web.New(st.live, web.Options{Hosts: []string{host}, Log: stderrLog(), Race: st.race, Stopping: stopping,
			Lab: &web.Lab{Queue: st.queue, Results: st.results}, Claims: claims(st.live, st.lab), Sampler: st.sampler}),
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       15 * time.Second,
		WriteTimeout:      3 * time.Minute, // a race answers when it is over
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    32 << 10,
	}
}

// race is the race of the API. Nobody follows it there.
func (st *stage) race(ctx context.Context, count int, busName string) (lab.RaceResult, error) {
	return runRace(ctx, st.lab, st.results, count, busName, nil)
}

// listen takes the address, or says who has it.
func listen(ctx context.Context, addr string) (net.Listener, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
	if err == nil {
		return l, nil
	}
	if !errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("cannot listen on %s: %w (--addr takes host:port, for example %s)", addr, err, defaultAddr)
	}
	holder := "another program has it"
	if healthy(ctx, addr) == nil {
		holder = "a playground is running there already: open http://" + addr
	}
	return nil, fmt.Errorf("cannot listen on %s: %w (%s; --addr 127.0.0.1:8001 takes another port)", addr, err, holder)
}

// healthy asks a playground at addr whether it is up.
func healthy(ctx context.Context, addr string) error {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+"/healthz", nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("http://%s/healthz answers %s", addr, resp.Status)
	}
	return nil
}

func healthcheckCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "healthcheck",
		Short: "ask the playground at ADDR whether it is up (for containers)",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, port, err := net.SplitHostPort(envOr("ADDR", defaultAddr))
			if err != nil {
				return err
			}
			if err := healthy(cmd.Context(), net.JoinHostPort("127.0.0.1", port)); err != nil {
				return &exitError{code: exitNotValid, err: err}
			}
			return nil
		},
	}
}
