// Package browsertest tries the pages as a reader does: in Debian's Chromium, against
// a playground that was built and started for it with servers of its own. It is a
// package of tests only and imports nothing of the project but the list of servers.
//
// Every tab notes what the browser says and asks for. A test fails when the console
// shows an error, when a script throws, when the Content-Security-Policy is violated,
// or when any request goes to another host than the playground.
//
// It needs Chromium and PostgreSQL, and for accessibility AXE_CORE, the path of
// axe.min.js; ./infra/test brings all three. What is missing skips the tests with the
// reason, and fails them where CI=true.
//
//	go test ./core/web/browsertest -run TestPages/keyboard -v
//	SCREENSHOTS=/tmp go test ./core/web/browsertest -run TestPages/screenshots
package browsertest
