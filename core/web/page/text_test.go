package page

import (
	"strings"
	"testing"
)

const (
	sample = "# 1 · Title\n\n[other](README.zh-TW.md)\n\n## The story\n\nOne **two**, [code](order.go) and [far](../../docs/x.md).\n\n" +
		"## Run it, now\n\n```sh\ngo run ./chapters run 1\n```\n\n### Sub\n\n| a | b |\n|:--|---|\n| 1 | 2 |\n\n```go\nfunc f() string { return \"<x>\" } // why\n```\n"
	// The emphasis stands beside full-width marks: CommonMark alone would show asterisks.
	chinese = "# 1 · 標題\n\n## 故事\n\n這是\\ **「原子」**\\ 的，\n下一行\n也是。之後\ncrash（code\n）。\n\n## 執行\n\n文字\n"
)

func sections(t *testing.T, text string) []Section {
	t.Helper()
	all, err := Sections([]byte(text), []byte(sample), func(to string) string {
		return map[string]string{"order.go": "#file-order.go"}[to]
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestSections(t *testing.T) {
	all := sections(t, sample)
	if len(all) != 2 || all[0].ID != "the-story" || all[1].ID != "run-it-now" || all[0].Title != "The story" {
		t.Fatalf("%+v", all)
	}
	story, run := string(all[0].Body), string(all[1].Body)
	for body, parts := range map[string][]string{
		story: {"<strong>two</strong>", `<a href="#file-order.go">code</a>`, "and far."},
		run: {`<pre tabindex="0" class="is-sh">`, `class="copy" hidden`, `<h3 id="sub">`, `<div class="scroll" tabindex="0">`,
			`<span class="k">func</span>`, `<span class="s">&#34;&lt;x&gt;&#34;</span>`, `<span class="c">// why</span>`},
	} {
		for _, part := range parts {
			if !strings.Contains(body, part) {
				t.Errorf("%s is missing in\n%s", part, body)
			}
		}
	}
	if strings.Contains(run, "style=") || strings.Contains(story, "README") {
		t.Errorf("%s%s", story, run)
	}
}

func TestChineseText(t *testing.T) {
	all := sections(t, chinese)
	if len(all) != 2 || all[0].ID != "the-story" || all[1].ID != "run-it-now" || all[0].Title != "故事" {
		t.Fatalf("the anchors are not those of the English text: %+v", all)
	}
	if body := string(all[0].Body); !strings.Contains(body, "這是<strong>「原子」</strong>的，下一行也是。之後\ncrash（code）。") {
		t.Errorf("%q", body)
	}
}

func TestSourceMarksLines(t *testing.T) {
	s := NewSource("order.go", "package x\n\n/* a\nb */\nfunc f() {}\n", []string{"func f"})
	if len(s.Lines) != 5 || s.Marked != 1 || !s.Lines[4].Marked || s.Lines[4].No != 5 {
		t.Errorf("%+v", s)
	}
	if s.Lines[2].HTML != `<span class="c">/* a</span>` || s.Lines[3].HTML != `<span class="c">b */</span>` {
		t.Errorf("a comment over two lines is %q, %q", s.Lines[2].HTML, s.Lines[3].HTML)
	}
}

func TestDiff(t *testing.T) {
	was := NewSource("a", "1\n2\n3\n4\n5\n6\n7\n8\n9\nold\n", nil)
	is := NewSource("a", "1\n2\n3\n4\n5\n6\n7\n8\n9\nnew\nmore\n", nil)
	var said []string
	for _, l := range Diff(was, is) {
		said = append(said, l.Sign()+l.text)
	}
	if got := strings.Join(said, " "); got != "…  7  8  9 -old +new +more" {
		t.Errorf("%q", got)
	}
	if d := Diff(was, is); d[0].Gap != 6 {
		t.Errorf("%d lines are left out", d[0].Gap)
	}
	for _, l := range Diff(was, was) {
		if l.Op != '…' || l.Gap != 10 {
			t.Errorf("the same source differs: %+v", l)
		}
	}
	if d := Diff(Source{}, is); len(d) != 11 {
		t.Errorf("everything is new: %d lines", len(d))
	}
}

func TestStrip(t *testing.T) {
	if s := string(Strip([]string{"delivered", "lost"})); strings.Count(s, "<use ") != 2 || !strings.Contains(s, `aria-hidden="true"`) || !strings.Contains(s, `href="#s-lost"`) {
		t.Error(s)
	}
	if Strip(nil) != "" || Strip(make([]string, 2000)) != "" {
		t.Error("nothing, or far too much, is drawn")
	}
}
