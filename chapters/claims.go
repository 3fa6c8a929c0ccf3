package main

import (
	"slices"

	"outboxplayground/core/lab"
)

// claims lists the article's sentences that can be tried, in its own order. None of
// them has a verdict here: each says which cells it rests on and how these are read.
func claims(live *lab.Live, l *lab.Lab) []lab.Claim {
	return slices.Concat(claimsOfTheProblem(), claimsTimed(l), claimsOfTheOutbox(), claimsMeasured(live), claimsOfTheWorker(), claimsOfTheRest())
}

// when turns a condition into a judgement.
func when(ok bool) lab.Holds {
	if ok {
		return lab.Yes
	}
	return lab.No
}

// unlessStuck is yes where the condition is met, but only partly while rows wait for
// a person.
func unlessStuck(ok bool, r lab.Report) lab.Holds {
	if ok && r.Measured.Stuck > 0 {
		return lab.Partly
	}
	return when(ok)
}

func cellOf(chapter int, variant, fault string) lab.Cell {
	return lab.Cell{Chapter: chapter, Variant: variant, Fault: fault}
}

func claimsOfTheProblem() []lab.Claim {
	return []lab.Claim{{
		ID: "naive-loses", Section: "§1",
		Text: lab.Text{En: "A controller that commits and then publishes loses the events of a broker outage: 47 orders, 12 emails.",
			ZhTW: "先 commit 再 publish 的 controller，會遺失 broker 中斷期間的 event：47 筆訂單，只有 12 封信。"},
		Cells: []lab.Cell{cellOf(1, "write-first", "broker-down")},
		Judge: func(r []lab.Report) lab.Holds {
			return when(r[0].Measured.Lost == 35 && r[0].Measured.Delivered == 12)
		},
	}, {
		ID: "nobody-is-told", Section: "§1",
		Text: lab.Text{En: "Nobody is told: every client of a lost event has been answered 201.",
			ZhTW: "沒有人會被通知：event 遺失的訂單，client 收到的都是 201。"},
		Cells: []lab.Cell{cellOf(1, "write-first", "broker-down")},
		Judge: func(r []lab.Report) lab.Holds {
			return when(r[0].Measured.Lost > 0 && r[0].Measured.Refused == 0)
		},
	}, {
		ID: "coordinator-dies", Section: "§2",
		Text: lab.Text{En: "When the coordinator of a two-phase commit dies in between, nobody knows whether to commit or to roll back, and a person has to step in.",
			ZhTW: "2PC 的 coordinator 中途掛掉時，沒人知道該 commit 還是 rollback，需要人工介入。"},
		Cells: []lab.Cell{cellOf(9, "two-phase", "crash-after-publish"), cellOf(9, "recovering", "crash-after-publish")},
		Judge: func(r []lab.Report) lab.Holds {
			inDoubt := r[0].Measured.Phantom+r[0].Measured.Stuck > 0
			if healed := r[1].Measured; inDoubt && healed.Phantom+healed.Stuck+healed.Lost == 0 {
				return lab.Partly
			}
			return when(inDoubt)
		},
		Because: map[lab.Standing]lab.Text{lab.Refined: {
			En:   "True of a coordinator without a log. One that has written down its decision beforehand can finish by itself when it is back, and what it wrote down is an outbox.",
			ZhTW: "沒有 log 的 coordinator 確實如此。事先把決定寫下來的 coordinator，恢復後能自己收尾；而它寫下的東西，就是一個 outbox。"}},
	}}
}

func claimsOfTheOutbox() []lab.Claim {
	return []lab.Claim{{
		ID: "all-or-nothing", Section: "§3, §4.2",
		Text: lab.Text{En: "Order and event are both kept or both not kept, when the business fails before the commit and when the process dies there.",
			ZhTW: "業務在 commit 前失敗、或 process 在那裡被砍，訂單與 event 都是全有或全無。"},
		Cells: []lab.Cell{cellOf(3, "outbox", "rollback"), cellOf(3, "outbox", "crash-before-commit")},
		Judge: func(r []lab.Report) lab.Holds {
			one := func(r lab.Report) bool {
				return r.Measured.Phantom+r.Measured.Lost == 0 && r.Measured.Delivered == r.Measured.Orders && r.Measured.Orders == 46
			}
			return when(one(r[0]) && one(r[1]))
		},
	}, {
		ID: "orders-go-on", Section: "§3",
		Text: lab.Text{En: "A dead broker does not keep anybody from ordering.",
			ZhTW: "broker 掛了，不影響下單成功的判定。"},
		Cells: []lab.Cell{cellOf(3, "outbox", "broker-down")},
		Judge: func(r []lab.Report) lab.Holds { return when(r[0].Measured.Refused == 0 && r[0].Measured.Orders == 47) },
	}, {
		ID: "heals-by-itself", Section: "§3, §4.3",
		Text: lab.Text{En: "When the broker is back, the worker sends what has piled up: not one order of the outage is lost.",
			ZhTW: "broker 恢復後，worker 會把累積的 event 補發出去，中斷期間的訂單一筆都不會丟。"},
		Cells: []lab.Cell{cellOf(3, "outbox", "broker-down"), cellOf(4, "patient", "broker-down")},
		Judge: func(r []lab.Report) lab.Holds {
			return unlessStuck(r[0].Measured.Lost == 0 && r[1].Measured.Lost == 0 && r[1].Late > 0, r[0])
		},
		Because: map[lab.Standing]lab.Text{lab.Refined: {
			En:   "Not one is lost, but by itself the article's worker does not heal: an outage longer than its five polls (2.5 s) leaves the rows in failed, and a person has to retry them. Chapter 4 spends no attempt on a broker that cannot be reached, and needs nobody.",
			ZhTW: "一筆都沒丟，但文章的 worker 不會自己好：中斷超過五次 poll（2.5 秒），row 就停在 failed，要有人去 retry。第 4 章在 broker 連不上時不消耗 attempts，就不需要人。"}},
	}, {
		ID: "naive-and-outbox", Section: "§4.3",
		Text: lab.Text{En: "Under the same outage the naive way loses events and the outbox none.",
			ZhTW: "同樣的中斷，naive 路徑會掉 event，outbox 一筆都不掉。"},
		Cells: []lab.Cell{cellOf(1, "write-first", "broker-down"), cellOf(2, "after-commit", "broker-down"), cellOf(4, "patient", "broker-down")},
		Judge: func(r []lab.Report) lab.Holds {
			return when(r[0].Measured.Lost > 0 && r[1].Measured.Lost > 0 && r[2].Measured.Lost+r[2].Measured.Stuck == 0)
		},
	}}
}

func claimsOfTheWorker() []lab.Claim {
	return []lab.Claim{{
		ID: "skip-locked", Section: "§5",
		Text: lab.Text{En: "FOR UPDATE SKIP LOCKED keeps two workers from sending the same row.",
			ZhTW: "FOR UPDATE SKIP LOCKED 讓兩個 worker 不會送到同一筆。"},
		// With the short window: otherwise NATS would absorb what was sent twice.
		Cells: []lab.Cell{cellOf(3, "dedupe-100ms", "two-relays")},
		Judge: func(r []lab.Report) lab.Holds { return when(r[0].Measured.Duplicated == 0) },
		Because: map[lab.Standing]lab.Text{
			lab.Refined: notWhileItPublishes(), lab.Refuted: notWhileItPublishes()},
	}, {
		ID: "sent-again", Section: "§5",
		Text: lab.Text{En: "A worker that dies after the publish and before the mark sends the event again.",
			ZhTW: "worker 在 publish 之後、標記之前掛掉，同一個 event 會重送一次。"},
		Cells: []lab.Cell{cellOf(3, "outbox", "crash-after-publish"), cellOf(3, "dedupe-100ms", "crash-after-publish")},
		Judge: func(r []lab.Report) lab.Holds {
			if r[0].Measured.Duplicated == 0 && r[1].Measured.Duplicated > 0 {
				return lab.Partly // it was sent again, and the broker has recognised it
			}
			return when(r[0].Measured.Duplicated > 0 && r[0].Measured.Lost == 0)
		},
		Because: map[lab.Standing]lab.Text{lab.Refined: {
			En:   "It is sent again everywhere. NATS JetStream recognises the id for two minutes and stores it once (the variant dedupe-100ms shows what comes after the window), and in memory the first copy died with the process.",
			ZhTW: "每一個 bus 都會重送。NATS JetStream 在兩分鐘內認得同一個 id，只存一份（variant dedupe-100ms 可看到窗口過後的樣子）；inmemory 的第一份則跟著 process 一起消失。"}},
	}, {
		ID: "idempotent-consumer", Section: "§5, §9",
		Text: lab.Text{En: "An idempotent consumer makes repeats harmless: one email an order, whoever dies in between.",
			ZhTW: "consumer 冪等之後，重送就無害：不管中間誰掛了，每筆訂單就是一封信。"},
		Cells: []lab.Cell{cellOf(6, "once", "crash-after-publish"), cellOf(6, "once", "consumer-crash")},
		Judge: func(r []lab.Report) lab.Holds {
			return when(r[0].Measured.Duplicated+r[0].Measured.Lost+r[1].Measured.Duplicated+r[1].Measured.Lost == 0)
		},
	}}
}

// notWhileItPublishes explains why the lock does not help where it is needed.
func notWhileItPublishes() lab.Text {
	return lab.Text{
		En:   "The lock ends with the transaction of the claim, and the article's worker commits that before it publishes. From then on a second worker finds the row pending. Chapter 5 keeps a row with a lease.",
		ZhTW: "鎖只到撈取的 transaction 結束為止，而文章的 worker 在 publish 之前就 commit 了。之後第二個 worker 看到的還是 pending。第 5 章改用 lease 佔住 row。"}
}

func claimsOfTheRest() []lab.Claim {
	return []lab.Claim{{
		ID: "five-attempts", Section: "§6",
		Text: lab.Text{En: "After five failed attempts a row is failed and waits for a person.",
			ZhTW: "attempts 達 5 次後 row 翻成 failed，等人處理。"},
		Cells: []lab.Cell{cellOf(3, "outbox", "broker-down")},
		Judge: func(r []lab.Report) lab.Holds { return when(r[0].Measured.Stuck == 35) },
	}, {
		ID: "rejected-event", Section: "§6",
		Text: lab.Text{En: "An event that the broker rejects ends as failed and stops no other one.",
			ZhTW: "被 broker 拒收的 event 會停在 failed，不會擋住其他 event。"},
		Cells: []lab.Cell{cellOf(3, "outbox", "poison")},
		Judge: func(r []lab.Report) lab.Holds { return when(r[0].Measured.Stuck == 1 && r[0].Measured.Delivered == 46) },
	}, {
		ID: "after-commit-rollback", Section: "§7",
		Text: lab.Text{En: "event() before the commit sends an email for an order that was rolled back; dispatching after the commit does not.",
			ZhTW: "commit 前就 event()，rollback 的訂單也會寄信；DispatchAfterCommit 不會。"},
		Cells: []lab.Cell{cellOf(1, "publish-first", "rollback"), cellOf(2, "after-commit", "rollback")},
		Judge: func(r []lab.Report) lab.Holds { return when(r[0].Measured.Phantom == 1 && r[1].Measured.Phantom == 0) },
	}, {
		ID: "after-commit-loses", Section: "§7",
		Text: lab.Text{En: "Dispatching after the commit loses the event when the broker is away, and when the process dies in between.",
			ZhTW: "DispatchAfterCommit 在 broker 斷線、或 process 死在 commit 與 dispatch 之間時，event 還是會丟。"},
		Cells: []lab.Cell{cellOf(2, "after-commit", "broker-down"), cellOf(2, "after-commit", "crash-after-commit")},
		Judge: func(r []lab.Report) lab.Holds { return when(r[0].Measured.Lost == 35 && r[1].Measured.Lost == 1) },
	}, {
		ID: "outbox-survives", Section: "§7",
		Text: lab.Text{En: "With the outbox a crash between commit and dispatch loses nothing: the event is part of the commit.",
			ZhTW: "有 outbox，process 死在 commit 與 dispatch 之間也不會丟：event 已是 commit 的一部分。"},
		Cells: []lab.Cell{cellOf(3, "outbox", "crash-after-commit")},
		Judge: func(r []lab.Report) lab.Holds {
			return when(r[0].Measured.Lost == 0 && r[0].Measured.Delivered == r[0].Measured.Orders)
		},
	}, {
		ID: "never-lost", Section: "§8",
		Text: lab.Text{En: "Whenever something dies, no message is lost: neither the relay's death nor that of a row already marked as sent costs an event.",
			ZhTW: "任何時候掛掉都不丟訊息：relay 撈到後死掉、或剛標成 sent 就死掉，都不會少一個 event。"},
		Cells: []lab.Cell{cellOf(3, "outbox", "relay-killed"), cellOf(3, "outbox", "crash-after-mark")},
		Judge: func(r []lab.Report) lab.Holds { return when(r[0].Measured.Lost+r[1].Measured.Lost == 0) },
		Because: map[lab.Standing]lab.Text{lab.Refined: {
			En:   "True of a broker that keeps what it has acknowledged. In memory the message dies with the process while its row says sent: the outbox is as durable as the broker behind it.",
			ZhTW: "前提是 broker 會留住它確認過的訊息。inmemory 的訊息跟著 process 消失，row 卻寫著 sent：outbox 的可靠程度取決於背後的 broker。"}},
	}}
}
