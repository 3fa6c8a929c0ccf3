package web

import (
	"net/http"

	"github.com/gin-gonic/gin"
)

// route is one call of the API.
type route struct {
	method, path string
	// changes says that the call changes something, whatever its method: it refuses
	// cross-site browsers, reads a body, and knows its parameters or refuses them.
	changes bool
	params  []param
	handle  gin.HandlerFunc
	// about is a line for the index.
	about string
}

// table lists every call. The OpenAPI document has the same ones; a test compares.
func (s *server) table() []route {
	get, post := http.MethodGet, http.MethodPost
	order := []param{text("user_id"), list("items"), text("event_id"), flag("fail"), chapterParam(), text("bus"), text("variant")}
	race := []param{number("count"), text("bus")}
	cell := []param{chapterParam(), text("bus"), text("fault"), text("variant")}
	return []route{
		{get, "/", false, nil, s.index, "this list"},
		{post, "/demo/place-order", true, order, s.placeOrder, "place an order; ?fail=1 lets it fail before COMMIT"},
		{get, "/audit/event/:event_id", false, []param{chapterParam()}, s.auditEvent, "what became of an event"},
		{post, "/demo/chaos/pause-outbox", true, []param{chapterParam()}, s.pause(true), "stop the outbox worker"},
		{post, "/demo/chaos/resume-outbox", true, []param{chapterParam()}, s.pause(false), "let it go on"},
		{get, "/metrics", false, []param{chapterParam()}, s.metrics, "pending rows and their lag; Prometheus too"},
		{post, "/demo/race-naive-vs-outbox", true, race, s.race, "both ways under the same outage"},
		{get, "/demo/race-naive-vs-outbox", true, race, s.race, "the same, from a link"},
		{get, "/admin/outbox/failed", false, []param{chapterParam(), text("bus"), text("error"), number("after"), number("limit")},
			s.failedRows, "rows that the worker has given up"},
		{post, "/admin/outbox/:id/retry", true, []param{chapterParam(), text("by")}, s.retryRow, "make a failed row pending again"},
		{post, "/admin/outbox/retry", true, []param{chapterParam(), text("bus"), text("error"), text("by")}, s.retryRows, "the same for all that match"},
		{get, "/admin/dead-letters", false, []param{chapterParam(), text("bus"), text("reason"), text("status"), number("after"), number("limit")},
			s.deadLetters, "messages that the listener has given up"},
		{post, "/admin/dead-letters/:id/replay", true, []param{chapterParam(), text("by")}, s.replayLetter, "handle one again"},
		{post, "/admin/dead-letters/replay", true, []param{chapterParam(), text("bus"), text("reason"), text("by")}, s.replayLetters, "the same for all that match"},
		{get, "/admin/prepared", false, []param{chapterParam()}, s.preparedOrders, "orders that wait, prepared, for a second phase"},
		{post, "/admin/prepared/:event_id/commit", true, []param{chapterParam()}, s.endPrepared(true), "decide one that is in doubt: it exists"},
		{post, "/admin/prepared/:event_id/rollback", true, []param{chapterParam()}, s.endPrepared(false), "decide one that is in doubt: it has never been"},
		{get, "/chapters", false, nil, s.chapters, "the table of contents"},
		{get, "/chapters/:n", false, formParams(), s.chapter, "one chapter"},
		{get, "/chapters/:n/files/:file", false, nil, s.chapterFile, "one of its files, as it was compiled"},
		{get, "/play", false, playParams(), s.play, "an experiment that somebody passes on, not yet run"},
		{post, "/chapters/:n/orders", true, order, s.placeOrder, "place an order the chapter's way"},
		{get, "/buses", false, nil, s.buses, "the buses, how real they are, and how to turn them on"},
		{post, "/runs", true, runParams(), s.withLab(s.askRun), "ask for an experiment; predict, then read the verdict"},
		{get, "/runs", false, nil, s.withLab(s.allRuns), "what waits, what runs, and the newest results"},
		{get, "/runs/:run", false, []param{number("events")}, s.withLab(s.oneRun), "one run: its state and its report"},
		{get, "/runs/:run/export", false, nil, s.withLab(s.exportRun), "a finished run as one HTML file"},
		{get, "/r/:run", false, []param{number("events")}, s.withLab(s.oneRun), "the same run, by a short link"},
		{get, "/compare", false, []param{text("a"), text("b")}, s.withLab(s.compare), "two runs side by side"},
		{get, "/claims", false, nil, s.withLab(s.claims), "the article's claims, as they stand here"},
		{post, "/claims/:claim", true, []param{text("bus")}, s.withLab(s.measureClaim), "measure what a claim rests on"},
		{get, "/runs/:run/events", false, []param{number("after")}, s.withLab(s.runEvents), "its progress, as a stream"},
		{get, "/audit/run/:run", false, nil, s.withLab(s.auditRun), "the report with the trail of every event"},
		{get, "/audit/guarantees", false, cell, s.withLab(s.guarantees), "declared beside measured, cell by cell"},
		{post, "/audit/guarantees", true, append([]param{text("cell"), text("before")}, cell...), s.withLab(s.measureGuarantees), "measure the cells that nobody has measured here"},
		{get, "/faults", false, nil, s.faults, "outages that are on now, and the faults of a run"},
		{post, "/demo/chaos/broker/:bus", true, []param{number("seconds")}, s.breakBroker, "a real outage of one broker, for a while"},
		{http.MethodDelete, "/demo/chaos/broker/:bus", true, nil, s.healBroker, "end it"},
		{post, "/settings", true, settingsParams(), s.settings, "set a switch of the pages: language, theme, projector"},
		{get, "/assets/:build/:name", false, nil, s.asset, "a file that the pages load"},
		{get, "/favicon.ico", false, nil, s.favicon, "the icon"},
		{get, "/healthz", false, nil, s.healthz, "whether the process is up"},
		{get, "/readyz", false, nil, s.readyz, "whether orders can be taken"},
		{get, "/openapi.json", false, nil, s.openapi, "this API as an OpenAPI document"},
	}
}
