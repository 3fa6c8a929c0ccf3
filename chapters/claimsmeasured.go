package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"outboxplayground/core/lab"
	"outboxplayground/core/shop"
)

// claimsMeasured are those that rest on a small measurement of their own.
func claimsMeasured(live *lab.Live) []lab.Claim {
	return []lab.Claim{{
		ID: "unique-event", Section: "§5",
		Text: lab.Text{En: "The same event_id twice is kept once: a client that retries orders nothing twice.",
			ZhTW: "同一個 event_id 送兩次只會留下一筆：client 重試不會下兩次單。"},
		How: lab.Text{En: "Places one order twice in chapter 3, and counts the rows.",
			ZhTW: "在第 3 章把同一筆訂單下兩次，再數 row。"},
		Measure: func(ctx context.Context) (lab.Finding, error) { return sameOrderTwice(ctx, live) },
	}}
}

// rowsOfEvent counts what an event left in the business's table and in the outbox.
const rowsOfEvent = `SELECT (SELECT count(*) FROM orders WHERE event_id = $1), (SELECT count(*) FROM outbox WHERE event_id = $1)`

// sameOrderTwice places an order as an impatient client does.
func sameOrderTwice(ctx context.Context, live *lab.Live) (lab.Finding, error) {
	const chapter = 3
	o := shop.Order{EventID: uuid.NewString(), UserID: "impatient", Items: []string{"A"}, Bus: live.DefaultBus()}
	if _, err := live.Place(ctx, chapter, "", o, nil); err != nil {
		return lab.Finding{}, err
	}
	_, err := live.Place(ctx, chapter, "", o, nil)
	if err != nil && !errors.Is(err, shop.ErrDuplicate) {
		return lab.Finding{}, err
	}
	var orders, rows int
	if err := live.DB(chapter).QueryRow(ctx, rowsOfEvent, o.EventID).Scan(&orders, &rows); err != nil {
		return lab.Finding{}, err
	}
	return lab.Finding{Holds: when(err != nil && orders == 1 && rows == 1), AsOf: time.Now().UTC(), Said: lab.Text{
		En:   fmt.Sprintf("Placed twice: %d row in orders, %d in the outbox; the second time refused: %t.", orders, rows, err != nil),
		ZhTW: fmt.Sprintf("下單兩次：orders 有 %d 筆、outbox 有 %d 筆；第二次被拒絕：%s。", orders, rows, yesNo(err != nil))}}, nil
}

func yesNo(yes bool) string {
	if yes {
		return "是"
	}
	return "否"
}
