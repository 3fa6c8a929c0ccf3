// Package page makes the pages: templates, the two languages, and the files that
// a browser loads besides. It knows no HTTP framework and asks no database; what a
// page shows is handed to it.
//
// # How to add a page
//
//  1. templates/NAME.html defines "main", in the functions of funcs.go:
//
//     {{define "main"}}<h1>{{t "orders.title"}}</h1>{{template "curl" .Data.Curl}}{{end}}
//
//     Inside it, .Data is what the handler gave, .Lang, .Theme and .Here are the
//     reader's. parts.html has what pages share: "curl" (a command that can be
//     copied), "bus-badge", "verdict" (predicted beside measured). The layout has the
//     landmarks, the switches and the live region (#live) already.
//
//  2. words/NAME.json has the page's words, {"orders.title": {"en": …, "zh-TW": …}}.
//     A key belongs to one file. Arguments are those of fmt: {{t "orders.of" .N}}.
//     A sentence that has no translation yet is shown in English, with a mark.
//
//  3. In core/web the handler of the path asks wantsPage(c) and then calls
//
//     s.show(c, http.StatusOK, "NAME", page.View{Title: …, Data: …})
//
//     where it would otherwise call reply. The address, the status and the JSON stay
//     what they are. The answer of the route in openapi.json gets "text/html".
//
//  4. A page that belongs into the navigation is added to nav in page.go.
//
//  5. A script is static/NAME.js, a module without imports from elsewhere, named in
//     View.Scripts. The page has to work without it. Forms are plain: a POST to an
//     existing call, which for a browser ends in s.seeOther(c, "/where/to/go").
//     Empty fields of a form count as left out.
//
// Styles: style.css only, with its custom properties; no style attribute, because
// the Content-Security-Policy forbids it (SVG has presentation attributes). What
// became of an event is always written by the function outcome: colour, shape and word.
// Tables stand in <div class="scroll" tabindex="0" role="region" aria-label="…">.
package page
