// Package docs_test keeps the texts true: both languages of a chapter have the
// same shape, links lead somewhere, and a command that a reader could paste names
// paths, subcommands, flags and tests that exist.
package docs_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

// root is the top of the project.
const root = ".."

// text is one Markdown file, split into what the checks look at.
type text struct {
	path     string
	headings []string // "## Title"
	blocks   []block
	prose    string // all that stands outside code blocks
}

type block struct {
	lang, code string
}

// texts reads README.md and every Markdown file of docs and chapters.
func texts(t *testing.T) []text {
	t.Helper()
	found := []text{read(t, filepath.Join(root, "README.md"))}
	for _, dir := range []string{"docs", "chapters"} {
		err := filepath.WalkDir(filepath.Join(root, dir), func(path string, _ fs.DirEntry, err error) error {
			if err == nil && strings.HasSuffix(path, ".md") {
				found = append(found, read(t, path))
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return found
}

func read(t *testing.T, path string) text {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	parsed := text{path: path}
	var prose, code []string
	inside := false
	for _, line := range strings.Split(string(raw), "\n") {
		switch fence := strings.HasPrefix(line, "```"); {
		case fence && inside:
			parsed.blocks[len(parsed.blocks)-1].code = strings.Join(code, "\n")
			inside, code = false, nil
		case fence:
			parsed.blocks = append(parsed.blocks, block{lang: strings.TrimPrefix(line, "```")})
			inside = true
		case inside:
			code = append(code, line)
		default:
			if strings.HasPrefix(line, "#") {
				parsed.headings = append(parsed.headings, line)
			}
			prose = append(prose, line)
		}
	}
	if inside {
		t.Fatalf("%s: a code block does not end", path)
	}
	parsed.prose = strings.Join(prose, "\n")
	return parsed
}

func TestBothLanguagesHaveTheSameShape(t *testing.T) {
	chapters, err := filepath.Glob(filepath.Join(root, "chapters", "[0-9][0-9]-*"))
	if err != nil || len(chapters) == 0 {
		t.Fatalf("no chapters found: %v", err)
	}
	for _, dir := range chapters {
		en := read(t, filepath.Join(dir, "README.md"))
		zh := read(t, filepath.Join(dir, "README.zh-TW.md"))
		if a, b := levels(en), levels(zh); !slices.Equal(a, b) {
			t.Errorf("%s: headings are %v in English and %v in Chinese", dir, a, b)
		}
		if len(en.headings) < 5 {
			t.Errorf("%s: %d headings are no chapter", dir, len(en.headings))
		}
		if len(en.blocks) != len(zh.blocks) {
			t.Errorf("%s: %d code blocks in English, %d in Chinese", dir, len(en.blocks), len(zh.blocks))
			continue
		}
		for i := range en.blocks {
			if en.blocks[i] != zh.blocks[i] {
				t.Errorf("%s: code block %d differs:\n%s\n---\n%s", dir, i+1, en.blocks[i].code, zh.blocks[i].code)
			}
		}
	}
}

// levels are the depths of the headings, in order.
func levels(doc text) []int {
	depths := make([]int, len(doc.headings))
	for i, h := range doc.headings {
		depths[i] = len(h) - len(strings.TrimLeft(h, "#"))
	}
	return depths
}

func TestChineseIsTraditional(t *testing.T) {
	for _, doc := range texts(t) {
		chinese := strings.HasSuffix(doc.path, ".zh-TW.md")
		raw, err := os.ReadFile(doc.path)
		if err != nil {
			t.Fatal(err)
		}
		han := 0
		for n, line := range strings.Split(string(raw), "\n") {
			for _, r := range line {
				if strings.ContainsRune(simplifiedOnly, r) {
					t.Errorf("%s:%d: %c is a Simplified character", doc.path, n+1, r)
				}
				if unicode.Is(unicode.Han, r) {
					han++
				}
			}
		}
		if chinese && han < 500 {
			t.Errorf("%s: %d Chinese characters are no translation", doc.path, han)
		}
	}
}

var link = regexp.MustCompile(`\]\(([^)\s]+)\)`)

func TestLinksLeadSomewhere(t *testing.T) {
	checked := 0
	for _, doc := range texts(t) {
		for _, m := range link.FindAllStringSubmatch(doc.prose, -1) {
			target, _, _ := strings.Cut(m[1], "#")
			if strings.Contains(target, "://") || target == "" {
				continue
			}
			checked++
			if _, err := os.Stat(filepath.Join(filepath.Dir(doc.path), target)); err != nil {
				t.Errorf("%s: the link to %s leads nowhere", doc.path, m[1])
			}
		}
	}
	if checked < 10 {
		t.Errorf("only %d links were found: is the pattern right?", checked)
	}
}

// An inline mention of a file of the project has to be one, too.
var mention = regexp.MustCompile("`((?:chapters|core|brokers|migrations|infra|docs)/[\\w./-]*)`")

func TestMentionedFilesExist(t *testing.T) {
	for _, doc := range texts(t) {
		for _, m := range mention.FindAllStringSubmatch(doc.prose, -1) {
			if strings.Contains(m[1], "NN-") || strings.HasSuffix(m[1], "/x") {
				continue // a pattern, not a path
			}
			if _, err := os.Stat(filepath.Join(root, m[1])); err != nil {
				t.Errorf("%s mentions %s, which does not exist", doc.path, m[1])
			}
		}
	}
}
