package lab

import (
	"context"

	"outboxplayground/core/checkpoint"
)

// reach is how many orders a fault is about.
type reach int

const (
	oneOrder reach = iota
	someOrders
	toTheEnd
)

// Fault is one thing that can go wrong.
type Fault struct {
	Name string `json:"name"`
	// What says precisely what happens.
	What Text `json:"what"`

	reach     reach
	needRelay bool // strikes the relay: chapters without one have no such fault
	network   bool // needs connections: the bus in memory has none
	twoWorlds bool // needs two processes that share a broker
	plot      func(context.Context, *run) error
}

// Faults lists what can go wrong, in the order of the guarantees table.
func Faults() []Fault {
	return []Fault{
		{Name: "none", plot: plotNone,
			What: Text{"nothing goes wrong", "什麼都沒壞"}},
		{Name: "rollback", plot: plotRollback,
			What: Text{"the business fails just before the commit of order 13", "第 13 筆訂單在 commit 前一刻業務失敗"}},
		{Name: "broker-down", plot: plotBrokerDown, reach: toTheEnd, network: true,
			What: Text{"connections to the broker are cut and refused from order 13 on", "從第 13 筆訂單起，broker 連線被切斷、拒絕"}},
		{Name: "broker-slow", plot: plotBrokerSlow, reach: toTheEnd, network: true,
			What: Text{"every reply of the broker comes 200 ms later, from order 13 on", "從第 13 筆訂單起，broker 每個回應慢 200 ms"}},
		{Name: "crash-before-commit", plot: plotCrashBeforeCommit,
			What: Text{"the producer is killed just before the commit of order 13", "producer 在第 13 筆訂單 commit 前被 SIGKILL"}},
		{Name: "crash-after-commit", plot: plotCrashAfterCommit,
			What: Text{"the producer is killed just after the commit of order 13", "producer 在第 13 筆訂單 commit 後被 SIGKILL"}},
		{Name: "crash-after-publish", plot: plotCrashAfterPublish,
			What: Text{"whoever publishes is killed after the broker's acknowledgement of event 13", "broker 確認第 13 個 event 之後，publish 的 process 被 SIGKILL"}},
		{Name: "ack-lost", plot: plotAckLost, network: true,
			What: Text{"event 13 arrives, its acknowledgement is swallowed, then the connection is cut", "第 13 個 event 送達，但 ack 被吞掉、連線被切斷"}},
		{Name: "relay-killed", plot: plotRelayKilled, needRelay: true,
			What: Text{"the relay is killed when it has claimed event 13", "relay 撈到第 13 個 event 時被 SIGKILL"}},
		{Name: "crash-after-mark", plot: plotCrashAfterMark, needRelay: true,
			What: Text{"the relay is killed after it has marked event 13 as sent", "relay 把第 13 個 event 標成 sent 之後被 SIGKILL"}},
		{Name: "two-relays", plot: plotTwoRelays, needRelay: true,
			What: Text{"a second relay claims while the first stands between publish and mark of event 13", "第一個 relay 卡在第 13 個 event 的 publish 與標記之間時，第二個 relay 也來撈"}},
		{Name: "zombie-relay", plot: plotZombieRelay, needRelay: true, network: true, twoWorlds: true,
			What: Text{"the relay is stopped before the publish of event 13, another one finishes, then it goes on", "relay 在 publish 第 13 個 event 前被 SIGSTOP，另一個 relay 做完後它又醒來"}},
		{Name: "consumer-crash", plot: plotConsumerCrash,
			What: Text{"the listener is killed after the email of event 13, before the acknowledgement", "listener 寄出第 13 封信後、ack 之前被 SIGKILL"}},
		{Name: "poison", plot: plotPoison,
			What: Text{"the destination of event 13 does not exist", "第 13 個 event 的目的地不存在"}},
		{Name: "db-down", plot: plotDBDown, reach: someOrders,
			What: Text{"connections to the database are cut and refused during orders 13 to 20", "第 13 到 20 筆訂單期間，資料庫連線被切斷、拒絕"}},
	}
}

// FaultNamed returns the fault of that name.
func FaultNamed(name string) (Fault, bool) { return faultNamed(Faults(), name) }

func faultNamed(faults []Fault, name string) (Fault, bool) {
	for _, f := range faults {
		if f.Name == name {
			return f, true
		}
	}
	return Fault{}, false
}

// KillAt is a fault besides the listed ones, for Lab.Extra: a role is killed when
// event 13 reaches a step, and started again.
func KillAt(name, role string, at checkpoint.Name) Fault {
	return Fault{Name: name, needRelay: role == Relaying,
		plot: func(ctx context.Context, r *run) error { return r.crash(ctx, role, at) }}
}

// FaultNames lists the names.
func FaultNames() []string {
	var names []string
	for _, f := range Faults() {
		names = append(names, f.Name)
	}
	return names
}

// NotApplicable says why the fault does not exist for a chapter on a bus, "" if it
// does.
func (f Fault) NotApplicable(c Chapter, busName string) string {
	switch {
	case f.needRelay && !c.Outbox:
		return "the chapter has no relay"
	case f.twoWorlds && busName == "inmemory":
		return "a stop would stop both relays: they share the one process of the broker"
	case f.network && busName == "inmemory":
		return "the broker is the process: there is no connection between them"
	}
	return ""
}
