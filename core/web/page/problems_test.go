package page

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"outboxplayground/core/lab"
)

// sentence is one that the source says about a problem.
type sentence struct{ code, text string }

// Every sentence that the API's source says about a problem has a Chinese form: whoever
// adds one there is told here.
func TestEveryProblemIsTranslated(t *testing.T) {
	p := newProblems(made(t).words, Chinese)
	codes, said, fields := sentencesOfTheAPI(t)
	for _, s := range said {
		if _, _, ok := p.byCode[s.code].match(s.text); !ok {
			t.Errorf("%s: no translation of %q", s.code, s.text)
		}
	}
	for _, text := range fields {
		if _, _, ok := p.fields.match(text); !ok {
			t.Errorf("no translation of %q about a field", text)
		}
	}
	for code := range codes {
		if _, ok := p.byCode[code]; !ok {
			t.Errorf("nothing is translated of %q", code)
		}
	}
	for code := range p.byCode {
		if !codes[code] {
			t.Errorf("no problem has the code %q", code)
		}
	}
	if len(codes) < 45 || len(said) < 100 || len(fields) < 30 {
		t.Errorf("only %d codes, %d sentences and %d about fields were found", len(codes), len(said), len(fields))
	}
}

// sentencesOfTheAPI reads the source. Where something is put into a sentence that is
// known only later, an X stands for it; a text of which nothing is known is left out.
func sentencesOfTheAPI(t *testing.T) (codes map[string]bool, said []sentence, fields []string) {
	t.Helper()
	code, codes := "", map[string]bool{}
	say := func(e ast.Expr) {
		if text := written(e); text != unknownText {
			said = append(said, sentence{code, text})
		}
	}
	names, _ := filepath.Glob("../*.go") // the pattern is sound
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CallExpr:
				switch called(n) {
				case "newProblem":
					if code = written(n.Args[1]); code != unknownText { // its own declaration's is
						codes[code] = true
						say(n.Args[2])
						say(n.Args[3])
					}
				case "notStorable":
					code = "not_storable"
					say(n.Args[0])
				case "errors.New", "fmt.Errorf":
					if base := filepath.Base(name); base == "params.go" || base == "orderinput.go" || base == "prediction.go" {
						fields = append(fields, written(n.Args[0], n.Args[1:]...))
					}
				}
			case *ast.AssignStmt:
				if to, ok := n.Lhs[0].(*ast.SelectorExpr); ok && to.Sel.Name == "Fix" {
					say(n.Rhs[0])
				}
			case *ast.CompositeLit:
				if kind, ok := n.Type.(*ast.Ident); ok && kind.Name == "fieldError" {
					if text := written(n.Elts[1]); text != unknownText {
						fields = append(fields, text)
					}
				}
			}
			return true
		})
	}
	return codes, said, fields
}

const unknownText = "X"

var anyVerb = regexp.MustCompile(`%[a-z]`)

// written is what an expression says, as far as the source tells.
func written(e ast.Expr, more ...ast.Expr) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		text, _ := strconv.Unquote(e.Value)
		if len(more) == 0 {
			return text
		}
		return anyVerb.ReplaceAllStringFunc(text, func(verb string) string {
			return map[string]string{"%q": `"X"`, "%d": "7"}[verb] + map[bool]string{true: "X"}[verb == "%s" || verb == "%v"]
		})
	case *ast.BinaryExpr:
		return written(e.X) + written(e.Y)
	case *ast.CallExpr:
		if called(e) == "fmt.Sprintf" {
			return written(e.Args[0], e.Args[1:]...)
		}
	}
	return unknownText
}

func called(c *ast.CallExpr) string {
	switch f := c.Fun.(type) {
	case *ast.Ident:
		return f.Name
	case *ast.SelectorExpr:
		if pkg, ok := f.X.(*ast.Ident); ok {
			return pkg.Name + "." + f.Sel.Name
		}
	}
	return ""
}

// problemDouble has what the template asks of a problem.
type problemDouble struct {
	Status                                 int
	Title, Detail, Code, Fix, Run, EventID string
	Errors                                 []struct{ Field, Detail string }
	Next                                   []struct{ Label, Curl string }
	Texts                                  []lab.Text
}

// Every translated sentence appears on the page of its problem, with what differs from
// case to case, and nothing of the English one is left.
func TestEveryProblemIsShownInChinese(t *testing.T) {
	p := made(t)
	shown := 0
	for key, text := range p.words {
		rest, ok := strings.CutPrefix(key, problemPrefix)
		if !ok || text.En == "%s" {
			continue
		}
		shown++
		code, _, _ := strings.Cut(rest, ".")
		d := problemDouble{Status: 400, Title: "Bad Request", Code: code}
		want := text.ZhTW
		d.Detail = text.En
		for i := range strings.Count(text.En, "%s") {
			d.Detail = strings.Replace(d.Detail, "%s", fmt.Sprintf("v%d", i), 1)
			want = strings.Replace(want, "%s", fmt.Sprintf("v%d", i), 1)
		}
		d.Fix = d.Detail
		var b bytes.Buffer
		if err := p.Write(&b, "problem", Reader{Lang: Chinese}, View{Data: d}); err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(b.String(), string(Escaped(want))); n != 2 {
			t.Errorf("%s: %s is shown %d times", key, want, n)
		}
	}
	if shown < 100 {
		t.Errorf("only %d sentences", shown)
	}
}

func TestAProblemIsSaidWithWhatItNames(t *testing.T) {
	words := made(t).words
	p := newProblems(words, Chinese)
	needs := []lab.Text{{En: "a big Postgres", ZhTW: "大的 Postgres"}}
	for _, tt := range []struct{ code, text, want string }{
		{"unknown_bus", `there is no bus "<b>"`, "沒有「&lt;b&gt;」這個 bus"},
		{"unknown_bus", "the buses are nats, kafka", "有這些 bus：nats, kafka"},
		{"run_failed", "the run 7 has failed, and nothing was measured: dial: <refused> & gone", `實驗 7 失敗了，什麼都沒量到：<span lang="en">dial: &lt;refused&gt; &amp; gone</span>`},
		{"run_not_finished", "the run 7 is queued", "實驗 7 還沒結束：排隊中"},
		{"chapter_off", "it needs a big Postgres; do what it says and restart the playground; every other chapter works", "它需要：大的 Postgres。照上面說的做，再重新啟動 playground；其他各章不受影響"},
		{"malformed_query", "write & between parameters, and %25 for %", "參數之間用 &amp;，% 要寫成 %25"},
		{"unknown_bus", "<new> sentence", `<span lang="en">&lt;new&gt; sentence</span>`},
		{"no_such_code", "there is nothing", `<span lang="en">there is nothing</span>`},
	} {
		if got := string(p.said(Chinese, p.byCode[tt.code], tt.text, needs)); got != tt.want {
			t.Errorf("got  %s\nwant %s", got, tt.want)
		}
	}
	if got := string(newProblems(words, English).said(English, reasons{}, "there is no <bus>", nil)); got != "there is no &lt;bus&gt;" {
		t.Errorf("%s", got)
	}
}
