package lab

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	"outboxplayground/core/shop"
)

// The answers that a client may have got.
const (
	created = "created"
	refused = "refused"
	noReply = "none"
)

// placeTo places orders, one after the other, up to and including number n.
func (r *run) placeTo(ctx context.Context, n int) error {
	for r.placed < n && r.placed < len(r.ids) {
		if err := r.place(ctx, r.placed); err != nil {
			return err
		}
		r.placed++
		r.tell(Progress{Stage: "running", Done: r.placed, Total: r.spec.Orders})
	}
	return nil
}

// place places one order as any client does, and notes what the client saw.
func (r *run) place(ctx context.Context, i int) error {
	body, err := json.Marshal(shop.Order{EventID: r.ids[i], UserID: fmt.Sprintf("user-%d", i+1), Items: []string{"A", "B"}, Bus: r.spec.Bus})
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+r.address+"/orders", bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Close = true // a new connection each, so that a restarted producer is met afresh
	r.journal.add(Line{At: time.Now(), Label: "client", Step: "order", EventID: r.ids[i]})
	r.answers[i] = noReply
	text := "no answer"
	if resp, err := http.DefaultClient.Do(req); err == nil {
		why, _ := io.ReadAll(io.LimitReader(resp.Body, 1000))
		_ = resp.Body.Close()
		r.answers[i] = refused
		switch {
		case resp.StatusCode == http.StatusCreated:
			r.answers[i] = created
		case resp.Header.Get("X-Code") == "commit_unknown":
			r.answers[i] = noReply
		}
		text = fmt.Sprintf("%d %s", resp.StatusCode, bytes.TrimSpace(why))
	}
	r.journal.add(Line{At: time.Now(), Label: "client", Step: sayAnswer, EventID: r.ids[i], Text: text})
	return ctx.Err()
}
