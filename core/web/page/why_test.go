package page

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// The audit's own sentences, as its source has them, each have a translation: whoever
// adds one there is told here.
func TestEveryReasonOfTheAuditIsTranslated(t *testing.T) {
	p := made(t)
	r := newReasons(p.words, Chinese, whyPrefix)
	found := 0
	inAudit(t, func(n ast.Node) bool {
		set, ok := n.(*ast.AssignStmt)
		if !ok || len(set.Lhs) == 0 {
			return true
		}
		if to, ok := set.Lhs[len(set.Lhs)-1].(*ast.SelectorExpr); !ok || to.Sel.Name != "Why" {
			return true
		}
		said := ""
		ast.Inspect(set.Rhs[len(set.Rhs)-1], func(n ast.Node) bool {
			if text, ok := n.(*ast.BasicLit); ok && text.Kind == token.STRING {
				s, _ := strconv.Unquote(text.Value)
				said += s
			}
			return true
		})
		for _, part := range strings.Split(strings.TrimPrefix(said, "; "), "; ") {
			if part == "" || strings.HasPrefix(part, "2006") {
				continue
			}
			found++
			if _, ok := r.one(strings.NewReplacer("%s", "X", "%d", "7", "2006-01-02 15:04:05", "").Replace(part)); !ok {
				t.Errorf("no translation of %q", part)
			}
		}
		return true
	})
	if found < 20 {
		t.Errorf("only %d sentences were found", found)
	}
}

// inAudit walks through the audit's source.
func inAudit(t *testing.T, visit func(ast.Node) bool) {
	t.Helper()
	names, err := filepath.Glob("../../audit/*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, visit)
	}
}

func TestAReasonIsTranslatedWithWhatItNames(t *testing.T) {
	r := newReasons(made(t).words, Chinese, whyPrefix)
	if got, want := string(r.say(Chinese, "no email yet; nats still holds 3 messages for the listener")), "還沒有信；nats 還為 listener 留著 3 則訊息"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got := string(r.say(Chinese, "publish: <refused>, after COMMIT")); got != "publish 在 COMMIT 之後失敗：&lt;refused&gt;" {
		t.Errorf("%s", got)
	}
	if got := string(r.say(Chinese, "<new>; sentence")); got != `<span lang="en">&lt;new&gt;; sentence</span>` {
		t.Errorf("%s", got)
	}
	if got := string(r.say(English, "no email yet")); got != "no email yet" {
		t.Errorf("%s", got)
	}
}
