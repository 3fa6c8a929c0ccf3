package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	measure "outboxplayground/core/bench"
	"outboxplayground/core/bus"
	"outboxplayground/core/lab"
)

// What these claims are measured with is small, for somebody is waiting. `bench` on
// the command line takes more orders and other buses.
const (
	claimedPoll   = 500 * time.Millisecond // the article's
	claimedRate   = 50
	claimedOrders = 300
)

// claimsTimed are claims about time. They are measured in memory: a broker would add
// its own time to all that is compared.
func claimsTimed(l *lab.Lab) []lab.Claim {
	return []lab.Claim{{
		ID: "two-phase-is-slow", Section: "§2",
		Text: lab.Text{En: "Two-phase commit lowers the throughput by 5 to 10 times.",
			ZhTW: "2PC 讓整體 throughput 下降 5-10 倍。"},
		How: lab.Text{En: "Places orders the way of chapter 3 and the way of chapter 9 by turns, on a bus in memory. `bench twophase` does it on the others.",
			ZhTW: "輪流用第 3 章和第 9 章的做法下單，bus 用 inmemory。其他 bus 請用 `bench twophase`。"},
		Measure: func(ctx context.Context) (lab.Finding, error) { return twoPhaseBesideOutbox(ctx, l) },
		Because: map[lab.Standing]lab.Text{lab.Refined: {
			En:   "On one machine with one database the factor is another one. Two flushes of the log instead of one and more round trips remain, and so does the wait for the broker inside the order; a coordinator on another machine adds to it.",
			ZhTW: "一台機器、一個資料庫時，倍數不同。兩次而不是一次寫入 log、更多的 round trip、以及在下單途中等 broker，這些代價都在；coordinator 若在另一台機器還會再加。"}},
	}, {
		ID: "half-the-interval", Section: "§3, §5",
		Text: lab.Text{En: "Polling delays an event by half the interval on average.",
			ZhTW: "polling 延遲平均是 poll interval 的一半。"},
		How: lab.Text{En: "Places 200 orders at 50/s with a relay that polls every 500 ms, and takes the time from COMMIT to the consumer.",
			ZhTW: "relay 每 500 ms poll 一次，以每秒 50 筆下 200 筆訂單，量 COMMIT 到 consumer 的時間。"},
		Measure: func(ctx context.Context) (lab.Finding, error) { return delayOfPolling(ctx, l) },
		Because: map[lab.Standing]lab.Text{lab.Refined: {
			En:   "Half the interval is what waiting costs. Sending takes its own time on top, most of all on a machine that is busy.",
			ZhTW: "一半的 interval 只是等待的部分。送出去本身也要時間，機器忙的時候尤其明顯。"}},
	}, {
		ID: "notify-wakes", Section: "§5",
		Text: lab.Text{En: "With LISTEN/NOTIFY the worker need not wait for the next interval: it wakes at once.",
			ZhTW: "用 LISTEN/NOTIFY，worker 收到通知就立刻 poll，不用等下一個 interval。"},
		How: lab.Text{En: "The same 200 orders with chapter 7's relay, beside one that polls every 500 ms.",
			ZhTW: "同樣 200 筆訂單，用第 7 章的 relay，跟每 500 ms poll 一次的比。"},
		Measure: func(ctx context.Context) (lab.Finding, error) { return notifyBesidePolling(ctx, l) },
		Because: map[lab.Standing]lab.Text{lab.Refined: {
			En:   "It is faster than polling and not at once: this machine had other things to do.",
			ZhTW: "比 polling 快，但稱不上立刻：這台機器當時還在忙別的。"}},
	}, {
		ID: "partial-index", Section: "§5",
		Text: lab.Text{En: "With the partial index the cost of a poll depends on the pending rows only, however many were sent.",
			ZhTW: "有了 partial index，每次 poll 的成本只跟 pending 的 row 數有關，sent 再多都無關。"},
		How: lab.Text{En: "Claims 100 of 20,000 pending rows over no sent rows and over 300,000, with the article's index (status, created_at) and with the playground's (bus, id).",
			ZhTW: "20,000 筆 pending，底下沒有 sent 與有 300,000 筆 sent 時各撈 100 筆；用文章的 index（status, created_at）與 playground 的（bus, id）各量一次。"},
		Measure: func(ctx context.Context) (lab.Finding, error) { return claimsOverSentRows(ctx, l) },
		Because: map[lab.Standing]lab.Text{
			lab.Refined: indexOfAnotherOrder(), lab.Refuted: indexOfAnotherOrder()},
	}}
}

// indexOfAnotherOrder explains why the article's index does not serve its worker.
func indexOfAnotherOrder() lab.Text {
	return lab.Text{
		En:   "It is true of an index in the order in which the worker asks. The article's is on created_at while its worker orders by id, so as soon as many rows wait the planner reads the table from its beginning, sent rows first.",
		ZhTW: "index 的順序要跟 worker 查詢的順序一致才成立。文章的 index 在 created_at，worker 卻 ORDER BY id；pending 一多，planner 就會從表的開頭讀起，先經過所有 sent 的 row。"}
}

// inMemoryBench is where a claim is timed.
func inMemoryBench(l *lab.Lab, rows int) measure.Config {
	return measure.Config{Bus: inMemory, DatabaseURL: l.DatabaseURL, Shared: true, Rows: rows,
		Open: func(ctx context.Context, prefix string) (bus.Bus, error) {
			return openForBench(ctx, inMemory, "", prefix, false)
		}}
}

func quiet(string) {}

// medianDelay is the time from COMMIT to consumer, in milliseconds.
func medianDelay(ctx context.Context, l *lab.Lab, w measure.Waker) (float64, error) {
	d, err := measure.Latency(ctx, inMemoryBench(l, 0), measure.Load{Rate: claimedRate, Waker: w, Rest: time.Millisecond}, quiet)
	if wrong := d.Lost + d.Duplicated + d.Stuck; err == nil && wrong > 0 {
		err = fmt.Errorf("%d of the orders did not arrive exactly once, so their times prove nothing", wrong)
	}
	return d.P50, err
}

func delayOfPolling(ctx context.Context, l *lab.Lab) (lab.Finding, error) {
	p50, err := medianDelay(ctx, l, measure.Poll(claimedPoll))
	part := p50 / float64(claimedPoll.Milliseconds())
	holds := lab.No
	switch {
	case part >= 0.4 && part <= 0.65:
		holds = lab.Yes
	case part > 0.65 && part <= 2:
		holds = lab.Partly
	}
	return lab.Finding{Holds: holds, AsOf: time.Now().UTC(), Said: lab.Text{
		En:   fmt.Sprintf("Half of the events took %.0f ms or less: %.2f of the interval.", p50, part),
		ZhTW: fmt.Sprintf("一半的 event 在 %.0f ms 以內送達：interval 的 %.2f 倍。", p50, part)}}, err
}

func notifyBesidePolling(ctx context.Context, l *lab.Lab) (lab.Finding, error) {
	polled, err := medianDelay(ctx, l, measure.Poll(claimedPoll))
	if err != nil {
		return lab.Finding{}, err
	}
	notified, err := medianDelay(ctx, l, measure.Notify(0))
	holds := lab.No
	switch {
	case notified <= 10:
		holds = lab.Yes
	case notified < polled/2:
		holds = lab.Partly
	}
	return lab.Finding{Holds: holds, AsOf: time.Now().UTC(), Said: lab.Text{
		En:   fmt.Sprintf("The median is %.1f ms, and %.0f ms with polling.", notified, polled),
		ZhTW: fmt.Sprintf("中位數是 %.1f ms；polling 則是 %.0f ms。", notified, polled)}}, err
}

func twoPhaseBesideOutbox(ctx context.Context, l *lab.Lab) (lab.Finding, error) {
	ways := []measure.Way{chapterWay("outbox", 3, "", false), chapterWay("two-phase", 9, "", false)}
	var slower float64
	err := measure.Ways(ctx, inMemoryBench(l, claimedOrders), 1, ways, quiet, func(p measure.Placed) error {
		slower = p.Slower // the last one is chapter 9's
		return nil
	})
	if err == nil && slower == 0 {
		err = errors.New("nothing was measured")
	}
	holds := lab.Partly
	switch {
	case slower >= 5 && slower <= 10:
		holds = lab.Yes
	case slower <= 1:
		holds = lab.No
	}
	return lab.Finding{Holds: holds, AsOf: time.Now().UTC(), Said: lab.Text{
		En:   fmt.Sprintf("The outbox places %.1f times as many orders in the same time.", slower),
		ZhTW: fmt.Sprintf("同樣的時間，outbox 下的訂單是它的 %.1f 倍。", slower)}}, err
}

// flat is how much a claim may grow and still count as independent: figures of a few
// claims vary by as much.
const flat = 3

func claimsOverSentRows(ctx context.Context, l *lab.Lab) (lab.Finding, error) {
	article, ours := map[int]float64{}, map[int]float64{}
	const sent = 300_000
	growth := measure.Growth{Sent: []int{0, sent}, Pending: []int{20_000}, Loops: 5}
	err := measure.Claim(ctx, inMemoryBench(l, 0), growth, quiet, func(c measure.Claimed) error {
		switch c.Claim {
		case measure.ArticlesClaim:
			article[c.Sent] = c.P50
		case measure.PlainClaim:
			ours[c.Sent] = c.P50
		}
		return nil
	})
	if err == nil && len(article)+len(ours) != 4 {
		err = errors.New("not every claim was measured")
	}
	holds := lab.No
	switch grows, other := article[sent]/article[0], ours[sent]/ours[0]; {
	case grows <= flat:
		holds = lab.Yes
	case other <= flat:
		holds = lab.Partly
	}
	return lab.Finding{Holds: holds, AsOf: time.Now().UTC(), Said: lab.Text{
		En: fmt.Sprintf("With the article's index a claim takes %.1f ms over none and %.1f ms over 300,000 sent rows; with (bus, id) %.1f and %.1f ms.",
			article[0], article[sent], ours[0], ours[sent]),
		ZhTW: fmt.Sprintf("文章的 index：沒有 sent 時 %.1f ms，300,000 筆 sent 時 %.1f ms；(bus, id)：%.1f 與 %.1f ms。",
			article[0], article[sent], ours[0], ours[sent])}}, err
}
