package docs_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	testName  = regexp.MustCompile("`(Test\\w+)`")
	checkName = regexp.MustCompile("`([a-z]+(?:-[a-z]+)+)`")
	cellName  = regexp.MustCompile("`(\\d)/([\\w-]+)/([\\w-]+)`")
)

// What a case is said to be tried by has to be there: a test, a check of the suite,
// or a variant and a fault of the matrix.
func TestCasesAreTriedByWhatThereIs(t *testing.T) {
	tests, sources := map[string]bool{}, ""
	declared := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") {
			return err
		}
		raw, err := os.ReadFile(path)
		sources += string(raw)
		for _, m := range declared.FindAllStringSubmatch(string(raw), -1) {
			tests[m[1]] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(filepath.Join(root, "docs", "cases.md"))
	if err != nil {
		t.Fatal(err)
	}
	doc, named := string(raw), 0
	for _, m := range testName.FindAllStringSubmatch(doc, -1) {
		if named++; !tests[m[1]] {
			t.Errorf("there is no %s", m[1])
		}
	}
	for _, m := range checkName.FindAllStringSubmatch(doc, -1) {
		if named++; !strings.Contains(sources, `{Name: "`+m[1]+`"`) {
			t.Errorf("the suite has no check %s", m[1])
		}
	}
	for _, m := range cellName.FindAllStringSubmatch(doc, -1) {
		named++
		chapter, err := filepath.Glob(filepath.Join(root, "chapters", "0"+m[1]+"-*", "chapter.go"))
		if err != nil || len(chapter) != 1 {
			t.Errorf("%s: no such chapter", m[0])
			continue
		}
		lesson, _ := os.ReadFile(chapter[0])
		if !strings.Contains(string(lesson), `"`+m[2]+`"`) || !strings.Contains(string(lesson), `"`+m[3]+`"`) {
			t.Errorf("%s: no such variant or fault", m[0])
		}
	}
	if named < 60 {
		t.Errorf("only %d names were found: are the patterns right?", named)
	}
}
