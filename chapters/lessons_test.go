package main

import (
	"io/fs"
	"strings"
	"testing"

	"outboxplayground/core/lab"
	"outboxplayground/core/web/page"
)

// The lines that the pages mark are there, in the files that are compiled in.
func TestLessonsMarkLinesThatExist(t *testing.T) {
	for _, c := range contents() {
		for _, l := range c.Lessons {
			raw, err := fs.ReadFile(c.Files, l.File)
			if err != nil {
				t.Errorf("chapter %d: %v", c.Number, err)
				continue
			}
			for _, mark := range l.Marks {
				if n := strings.Count(string(raw), mark); n == 0 {
					t.Errorf("chapter %d: %q is not in %s", c.Number, mark, l.File)
				}
			}
			if s := page.NewSource(l.File, string(raw), l.Marks); s.Marked == 0 || s.Marked > 9 {
				t.Errorf("chapter %d: %d lines of %s are marked", c.Number, s.Marked, l.File)
			}
			if _, ok := c.Variant(l.Variant); !ok {
				t.Errorf("chapter %d has no variant %q", c.Number, l.Variant)
			}
		}
		for _, v := range c.Variants {
			if len(c.LessonsOf(v.Name)) == 0 {
				t.Errorf("chapter %d, %s: nothing to read", c.Number, v.Name)
			}
		}
		if _, ok := lab.FaultNamed(c.Try); c.Try != "" && !ok {
			t.Errorf("chapter %d wants the fault %q to be tried", c.Number, c.Try)
		}
	}
}

// A page shows the first two sections of a text before the experiment, and compares
// the code where the text says what changed.
func TestTextsHaveTheSectionsThatThePagesNeed(t *testing.T) {
	for _, c := range contents() {
		original, err := fs.ReadFile(c.Files, "README.md")
		if err != nil {
			t.Errorf("chapter %d: %v", c.Number, err)
			continue
		}
		for _, name := range []string{"README.md", "README.zh-TW.md"} {
			raw, err := fs.ReadFile(c.Files, name)
			if err != nil {
				t.Errorf("chapter %d: %v", c.Number, err)
				continue
			}
			sections, err := page.Sections(raw, original, func(to string) string { return to })
			if err != nil || len(sections) < 5 {
				t.Errorf("chapter %d, %s: %d sections, %v", c.Number, name, len(sections), err)
				continue
			}
			if sections[0].ID != "the-story" || sections[1].ID != "predict" && sections[1].ID != "the-question" {
				t.Errorf("chapter %d, %s begins with %q and %q", c.Number, name, sections[0].ID, sections[1].ID)
			}
			changed := false
			for _, s := range sections {
				changed = changed || s.ID == "what-changed-since-the-last-chapter"
				if strings.Contains(string(s.Body), "**") {
					t.Errorf("chapter %d, %s, %s: emphasis is not read as such", c.Number, name, s.ID)
				}
			}
			if !changed {
				t.Errorf("chapter %d, %s does not say what changed", c.Number, name)
			}
		}
	}
}
