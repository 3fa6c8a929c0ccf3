package page

import (
	"bytes"
	"html/template"
	"io/fs"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"

	"outboxplayground/core/lab"
)

func made(t *testing.T) *Pages {
	t.Helper()
	p, err := New()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

var verb = regexp.MustCompile(`%[a-z]`)

// Both languages say the same things: no sentence is missing, none lacks an argument.
func TestEverySentenceIsInBothLanguages(t *testing.T) {
	p := made(t)
	if len(p.words) < 30 {
		t.Fatalf("only %d sentences: is the folder right?", len(p.words))
	}
	for key, text := range p.words {
		if text.En == "" || text.ZhTW == "" {
			t.Errorf("%s: %+v", key, text)
		}
		if en, zh := verb.FindAllString(text.En, -1), verb.FindAllString(text.ZhTW, -1); strings.Join(en, "") != strings.Join(zh, "") {
			t.Errorf("%s takes %v in English and %v in Chinese", key, en, zh)
		}
	}
}

var used = regexp.MustCompile(`\bt "([^"]+)"`)

// Every key that a template spells out has words, and what is drawn has a file.
func TestTemplatesUseWordsThatExist(t *testing.T) {
	p := made(t)
	names, err := fs.Glob(templateFiles, "templates/*.html")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, name := range names {
		raw, err := fs.ReadFile(templateFiles, name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range used.FindAllStringSubmatch(string(raw), -1) {
			found++
			if _, ok := p.words[m[1]]; !ok {
				t.Errorf("%s: no words for %q", name, m[1])
			}
		}
		for _, bad := range []string{" style=", "<style", " onclick=", "<script>", "https://", "javascript:"} {
			if strings.Contains(string(raw), bad) {
				t.Errorf("%s has %q, which the policy forbids", name, bad)
			}
		}
	}
	if found < 15 {
		t.Errorf("only %d uses were found", found)
	}
}

func TestAKeyBelongsToOneFile(t *testing.T) {
	one := &fstest.MapFile{Data: []byte(`{"a": {"en": "A", "zh-TW": "甲"}}`)}
	if _, err := readWords(fstest.MapFS{"words/a.json": one, "words/b.json": one}); err == nil {
		t.Error("the same key in two files passes")
	}
	if _, err := readWords(fstest.MapFS{"words/a.json": one}); err != nil {
		t.Error(err)
	}
}

func TestAMissingTranslationFallsBackWithAMark(t *testing.T) {
	half := words{"k": lab.Text{En: "half <done> %s"}}
	zh, err := half.say(Chinese, "k", "<b>")
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{`lang="en"`, "half &lt;done&gt; &lt;b&gt;", `class="fallback"`} {
		if !strings.Contains(string(zh), part) {
			t.Errorf("%s is missing in %s", part, zh)
		}
	}
	if en, _ := half.say(English, "k", "x"); strings.Contains(string(en), "fallback") {
		t.Errorf("English falls back: %s", en)
	}
	if _, err := half.say(English, "other"); err == nil {
		t.Error("a key without words passes")
	}
}

func TestAcceptLanguage(t *testing.T) {
	for header, want := range map[string]Lang{
		"": English, "de": English, "en-GB,en;q=0.9": English, "zh-TW,zh;q=0.9,en;q=0.8": Chinese,
		"zh-Hant-HK": Chinese, "zh": Chinese, "en;q=0.5,zh-TW;q=0.9": Chinese, "fr,zh-TW;q=0.5": Chinese, ";;;": English,
	} {
		if got := Match(header); got != want {
			t.Errorf("%q: %s, want %s", header, got, want)
		}
	}
}

func TestTheStyleSheetIsSmall(t *testing.T) {
	p := made(t)
	css, kind, ok := p.Asset(p.assets.build, "style.css")
	if !ok || kind != "text/css; charset=utf-8" || len(css) > 12<<10 {
		t.Errorf("%d bytes of %s", len(css), kind)
	}
	if _, _, ok := p.Asset("other", "style.css"); ok {
		t.Error("a file of another build is served")
	}
	if bytes.Contains(css, []byte("url(")) || bytes.Contains(css, []byte("@import")) {
		t.Error("the style sheet loads something")
	}
}

func TestOutcomesHaveAShapeAndAWord(t *testing.T) {
	p := made(t)
	seen := map[string]string{}
	for word, shape := range shapes() {
		for _, l := range Langs() {
			html, err := p.outcome(l, word, int64(3))
			if err != nil || !strings.Contains(string(html), shape+"</svg>3 ") {
				t.Errorf("%s: %s %v", word, html, err)
			}
		}
		if other, twice := seen[shape]; twice && word != "ok" && other != "ok" {
			t.Errorf("%s and %s have the same shape", word, other)
		}
		seen[shape] = word
	}
	if _, err := p.outcome(English, "gone"); err == nil {
		t.Error("an outcome that is none passes")
	}
}

func TestTicksAreCode(t *testing.T) {
	trcode := made(t).funcs(English)["trcode"].(func(lab.Text) template.HTML)
	text := lab.Text{En: "run `bench <x>` & then `y`, or ` alone"}
	if got, want := string(trcode(text)), "run <code>bench &lt;x&gt;</code> &amp; then <code>y</code>, or ` alone"; got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
}
