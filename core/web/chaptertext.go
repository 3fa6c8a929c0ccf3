package web

import (
	"io/fs"
	"path"
	"regexp"
	"strconv"
	"strings"

	"outboxplayground/core/lab"
	"outboxplayground/core/web/page"
)

// sourcesOf reads the files to read for a variant, from what was compiled in. A file
// that is not there is left out: a test holds the chapters to it.
func sourcesOf(ch lab.Chapter, variant string) (list []page.Source) {
	for _, l := range ch.LessonsOf(variant) {
		if code, ok := fileOf(ch, l.File); ok {
			list = append(list, page.NewSource(l.File, code, l.Marks))
		}
	}
	return list
}

// fileOf reads one of the chapter's own files.
func fileOf(ch lab.Chapter, name string) (string, bool) {
	if ch.Files == nil || path.Base(name) != name {
		return "", false
	}
	raw, err := fs.ReadFile(ch.Files, name)
	return string(raw), err == nil
}

// markedLines are the lines that matter, without the others.
func markedLines(ch lab.Chapter, variant string) (list []page.Source) {
	for _, src := range sourcesOf(ch, variant) {
		only := page.Source{Name: src.Name, Marked: src.Marked}
		for _, l := range src.Lines {
			if l.Marked {
				only.Lines = append(only.Lines, l)
			}
		}
		if only.Marked > 0 {
			list = append(list, only)
		}
	}
	return list
}

// sectionsOf renders the chapter's text. One that is not translated is shown in
// English, and fellBack says so.
func (s *server) sectionsOf(ch lab.Chapter, variant string, l page.Lang) (sections []page.Section, fellBack bool, err error) {
	original, ok := fileOf(ch, "README.md")
	if !ok {
		return nil, false, nil
	}
	text := original
	if l == page.Chinese {
		if text, ok = fileOf(ch, "README.zh-TW.md"); !ok {
			text, fellBack = original, true
		}
	}
	shown := map[string]bool{}
	for _, lesson := range ch.LessonsOf(variant) {
		shown[lesson.File] = true
	}
	sections, err = page.Sections([]byte(text), []byte(original), func(to string) string { return s.relinked(ch, shown, to) })
	return sections, fellBack, err
}

var otherChapter = regexp.MustCompile(`^\.\./(\d+)-[a-z0-9-]+/README(?:\.zh-TW)?\.md(#.*)?$`)

// relinked turns a link between files into one between pages; "" where there is none.
func (s *server) relinked(ch lab.Chapter, shown map[string]bool, to string) string {
	file, anchor, _ := strings.Cut(to, "#")
	switch m := otherChapter.FindStringSubmatch(to); {
	case strings.Contains(to, "://"), file == "":
		return to
	case m != nil:
		n, _ := strconv.Atoi(m[1]) // of digits
		if _, ok := s.live.Chapter(n); !ok {
			return ""
		}
		return "/chapters/" + strconv.Itoa(n) + m[2]
	case to == "../../README.md#what-each-way-guarantees":
		return "/audit/guarantees"
	case shown[file]:
		return "#file-" + file
	case strings.HasPrefix(file, "README"):
		return "/chapters/" + strconv.Itoa(ch.Number) + strings.TrimSuffix("#"+anchor, "#")
	}
	if _, ok := fileOf(ch, file); ok {
		return "/chapters/" + strconv.Itoa(ch.Number) + "/files/" + file
	}
	return ""
}

// changesSince compares the lesson with that of the chapter before: file by file of
// the same name.
func (s *server) changesSince(ch lab.Chapter) (before lab.Chapter, lines []page.DiffLine, ok bool) {
	for _, other := range s.live.Chapters() {
		if other.Number < ch.Number {
			before, ok = other, true
		}
	}
	was, had := fileOf(before, "order.go")
	is, has := fileOf(ch, "order.go")
	if !ok || !had || !has {
		return before, nil, false
	}
	return before, page.Diff(page.NewSource("order.go", was, nil), page.NewSource("order.go", is, nil)), true
}
