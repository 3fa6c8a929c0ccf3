package docs_test

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// call is an HTTP request that a text tells the reader to make.
type call struct {
	where, method, path string
	params              []string
}

var (
	// The method of curl is the one it says, POST when it sends data.
	said    = regexp.MustCompile(`-X ([A-Z]+)`)
	sends   = regexp.MustCompile(`(^|\s)(-d|--data\S*)\s`)
	address = regexp.MustCompile(`http://(?:localhost|127\.0\.0\.1):8000(/[^\s'"?;]*)?(?:\?([^\s'"]*))?`)
	// A path in prose, such as `/admin/outbox/{id}/retry`.
	spoken = regexp.MustCompile("`(?:GET |POST |DELETE )?(/(?:demo|admin|audit|chapters|buses|runs|faults|metrics|healthz|readyz|openapi\\.json)\\b[^`?\\s]*)[^`]*`")
)

// calls finds the requests in shell blocks.
func calls(docs []text) []call {
	var found []call
	for _, doc := range docs {
		for _, line := range shellLines(doc) {
			for _, m := range address.FindAllStringSubmatch(line, -1) {
				c := call{where: doc.path, method: "get", path: m[1]}
				if x := said.FindStringSubmatch(line); x != nil {
					c.method = strings.ToLower(x[1])
				} else if sends.MatchString(line) {
					c.method = "post"
				}
				for _, pair := range strings.Split(m[2], "&") {
					if name, _, ok := strings.Cut(pair, "="); ok {
						c.params = append(c.params, name)
					}
				}
				found = append(found, c)
			}
		}
	}
	return found
}

// shellLines are the commands of a text, continued lines joined.
func shellLines(doc text) []string {
	var lines []string
	for _, b := range doc.blocks {
		if b.lang == "sh" {
			lines = append(lines, strings.Split(strings.ReplaceAll(b.code, "\\\n", " "), "\n")...)
		}
	}
	return lines
}

// api is what the checks need of the OpenAPI document.
type api struct {
	Paths map[string]map[string]struct {
		Parameters []struct {
			Name string `json:"name"`
			Ref  string `json:"$ref"`
		} `json:"parameters"`
	} `json:"paths"`
	Components struct {
		Parameters map[string]struct {
			Name string `json:"name"`
		} `json:"parameters"`
	} `json:"components"`
}

func readAPI(t *testing.T) api {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(root, "core", "web", "openapi.json"))
	if err != nil {
		t.Fatal(err)
	}
	var doc api
	if err := json.Unmarshal(raw, &doc); err != nil {
		t.Fatal(err)
	}
	return doc
}

// match returns the documented form of a path.
func (a api) match(path string) (string, bool) {
	if _, ok := a.Paths[path]; ok {
		return path, true
	}
	for documented := range a.Paths {
		if samePath(strings.Split(documented, "/"), strings.Split(path, "/")) {
			return documented, true
		}
	}
	return "", false
}

func samePath(documented, path []string) bool {
	return slices.EqualFunc(documented, path, func(d, p string) bool {
		return d == p || (strings.HasPrefix(d, "{") && p != "")
	})
}

// takes tells whether an operation knows a query parameter.
func (a api) takes(path, method, name string) bool {
	for _, p := range a.Paths[path][method].Parameters {
		if p.Name == name || a.Components.Parameters[filepath.Base(p.Ref)].Name == name {
			return true
		}
	}
	return false
}

func TestDocumentedCallsAreInTheAPI(t *testing.T) {
	doc, made := readAPI(t), calls(texts(t))
	if len(made) < 20 {
		t.Fatalf("only %d calls were found: is the pattern right?", len(made))
	}
	for _, c := range made {
		path, ok := doc.match(c.path)
		if !ok {
			t.Errorf("%s: there is no %s", c.where, c.path)
			continue
		}
		if _, ok := doc.Paths[path][c.method]; !ok {
			t.Errorf("%s: %s does not take %s", c.where, c.path, c.method)
			continue
		}
		for _, p := range c.params {
			if !doc.takes(path, c.method, p) {
				t.Errorf("%s: %s %s has no parameter %s", c.where, c.method, c.path, p)
			}
		}
	}
}

func TestSpokenPathsAreInTheAPI(t *testing.T) {
	doc := readAPI(t)
	for _, txt := range texts(t) {
		for _, m := range spoken.FindAllStringSubmatch(txt.prose, -1) {
			if _, ok := doc.match(m[1]); !ok {
				t.Errorf("%s: there is no %s", txt.path, m[1])
			}
		}
	}
}

// commandLine is what chapters/*.go defines.
type commandLine struct {
	commands []string
	literals map[string]bool // every string in the source; flags are among them
}

func readCommandLine(t *testing.T) commandLine {
	t.Helper()
	c := commandLine{literals: map[string]bool{}}
	for _, file := range parseDir(t, filepath.Join(root, "chapters")) {
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.KeyValueExpr:
				if key, ok := n.Key.(*ast.Ident); ok && key.Name == "Use" {
					c.add(n.Value)
				}
			case *ast.CallExpr:
				if f, ok := n.Fun.(*ast.Ident); ok && f.Name == "roleCommand" {
					c.add(n.Args[0])
				}
			case *ast.BasicLit:
				if s, err := strconv.Unquote(n.Value); err == nil {
					c.literals[s] = true
				}
			}
			return true
		})
	}
	return c
}

// add keeps the first word of a usage line that is a literal.
func (c *commandLine) add(usage ast.Expr) {
	lit, ok := usage.(*ast.BasicLit)
	if !ok {
		return
	}
	if s, err := strconv.Unquote(lit.Value); err == nil {
		name, _, _ := strings.Cut(s, " ")
		c.commands = append(c.commands, name)
	}
}

func parseDir(t *testing.T, dir string) []*ast.File {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	var files []*ast.File
	for _, p := range paths {
		f, err := parser.ParseFile(token.NewFileSet(), p, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	return files
}

var (
	chaptersRun = regexp.MustCompile("(?:go run )\\./chapters\\b([^`\n#|&)]*)")
	flag        = regexp.MustCompile(`--([a-z-]+)`)
	word        = regexp.MustCompile(`^\s+([a-z]+)`)
)

func TestSubcommandsExist(t *testing.T) {
	defined, seen := readCommandLine(t), 0
	for _, doc := range texts(t) {
		all := doc.prose + "\n" + strings.Join(shellLines(doc), "\n")
		for _, m := range chaptersRun.FindAllStringSubmatch(all, -1) {
			seen++
			if sub := word.FindStringSubmatch(m[1]); sub != nil && !slices.Contains(defined.commands, sub[1]) {
				t.Errorf("%s: `go run ./chapters%s`: there is no command %s; there are %v", doc.path, m[1], sub[1], defined.commands)
			}
			for _, f := range flag.FindAllStringSubmatch(m[1], -1) {
				if !defined.literals[f[1]] {
					t.Errorf("%s: `go run ./chapters%s`: no command has a flag --%s", doc.path, m[1], f[1])
				}
			}
		}
	}
	if seen < 3 {
		t.Errorf("only %d command lines were found: is the pattern right?", seen)
	}
}

var (
	localPath = regexp.MustCompile(`(?:^|\s)(\./[\w./-]+)`)
	goTest    = regexp.MustCompile(`go test .*-run (\w+) (\./\S+)`)
)

// programs are what a reader can be expected to have.
const programs = "curl go docker for do done echo git cd ./infra/start ./infra/test sleep pkill while until"

func TestShellLinesUseWhatIsThere(t *testing.T) {
	for _, doc := range texts(t) {
		for _, line := range shellLines(doc) {
			checkShellLine(t, doc.path, line)
		}
	}
}

func checkShellLine(t *testing.T, where, line string) {
	t.Helper()
	first, _, _ := strings.Cut(strings.TrimSpace(line), " ")
	assignment := regexp.MustCompile(`^[A-Z_]+=`).MatchString(first)
	if first != "" && !strings.HasPrefix(first, "#") && !assignment && !slices.Contains(strings.Fields(programs), first) {
		t.Errorf("%s: %q begins with a program that nobody was told to have", where, line)
	}
	for _, m := range localPath.FindAllStringSubmatch(line, -1) {
		if _, err := os.Stat(filepath.Join(root, m[1])); err != nil && !strings.HasSuffix(m[1], "...") {
			t.Errorf("%s: %q: there is no %s", where, line, m[1])
		}
	}
	if m := goTest.FindStringSubmatch(line); m != nil && !hasTest(t, filepath.Join(root, m[2]), m[1]) {
		t.Errorf("%s: %q: %s has no test of that name", where, line, m[2])
	}
}

func hasTest(t *testing.T, dir, name string) bool {
	for _, f := range parseDir(t, dir) {
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Name.Name == name {
				return true
			}
		}
	}
	return false
}
