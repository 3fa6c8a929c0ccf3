package main

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "outboxplayground/"

// clients are the brokers' own libraries: each belongs to one folder.
func clients() map[string]string {
	return map[string]string{
		"github.com/rabbitmq/amqp091-go": "brokers/rabbitmq",
		"github.com/segmentio/kafka-go":  "brokers/kafka",
		"github.com/nats-io/nats.go":     "brokers/nats",
		"github.com/redis/go-redis/v9":   "brokers/redis",
	}
}

type pkg struct {
	ImportPath string
	Imports    []string
	Deps       []string
}

// packages asks the go command for every package of the project and what it needs.
func packages(t *testing.T) []pkg {
	t.Helper()
	cmd := exec.Command("go", "list", "-json=ImportPath,Imports,Deps", "./...")
	cmd.Dir = ".."
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var all []pkg
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p pkg
		err := dec.Decode(&p)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		p.ImportPath = strings.TrimPrefix(p.ImportPath, module)
		all = append(all, p)
	}
}

// isTestKit tells the packages that only tests import; they may look across the arrow.
func isTestKit(path string) bool {
	return strings.HasSuffix(path, "test") || strings.Contains(path, "brokertest/")
}

// forbidden says why a package must not depend on another, "" if it may.
func forbidden(from, to string) string {
	in := func(path, dir string) bool { return path == dir || strings.HasPrefix(path, dir+"/") }
	client := func(dep string) string {
		for lib, home := range clients() {
			if (dep == lib || strings.HasPrefix(dep, lib+"/")) && !in(from, home) {
				return "the client library belongs to " + home
			}
		}
		return ""
	}
	to = strings.TrimPrefix(to, module)
	switch {
	case in(from, "core") && (in(to, "brokers") || in(to, "chapters")):
		return "the arrow is chapters → core ← brokers"
	case in(from, "brokers") && in(to, "chapters"):
		return "the arrow is chapters → core ← brokers"
	case strings.HasPrefix(from, "brokers/") && strings.HasPrefix(to, "brokers/") && !in(to, from):
		return "a driver does not know another driver"
	case strings.HasPrefix(from, "chapters/") && (in(to, "chapters") || in(to, "brokers") || in(to, "infra")):
		return "a chapter knows core and nothing else"
	case in(from, "infra/servers") && strings.Contains(to, "/") && !in(to, "infra") && isOurs(to):
		return "infra/servers imports nothing of the project"
	case from == "core/bus" && isOurs(to):
		return "the vocabulary imports nothing of ours"
	case in(from, "core/lab") && in(to, "core/web"):
		return "the lab does not know the web"
	case strings.HasPrefix(to, "github.com/gin-gonic/gin") && in(from, "core") && !in(from, "core/web"):
		return "gin belongs to core/web"
	case in(from, "core"):
		return client(to)
	}
	return ""
}

func isOurs(path string) bool {
	return slices.Contains([]string{"chapters", "brokers", "core", "migrations", "infra"},
		strings.SplitN(path, "/", 2)[0])
}

// TestTheArrow keeps the direction of every import, transitive ones included.
func TestTheArrow(t *testing.T) {
	all := packages(t)
	if len(all) < 15 {
		t.Fatalf("only %d packages seen: the check looks in the wrong place", len(all))
	}
	for _, p := range all {
		if isTestKit(p.ImportPath) {
			continue
		}
		for _, dep := range p.Deps {
			if isTestKit(strings.TrimPrefix(dep, module)) && strings.HasPrefix(dep, module) {
				t.Errorf("%s depends on the test kit %s", p.ImportPath, dep)
			}
			if why := forbidden(p.ImportPath, dep); why != "" {
				t.Errorf("%s depends on %s: %s", p.ImportPath, dep, why)
			}
		}
		for lib, home := range clients() {
			if slices.Contains(p.Imports, lib) && p.ImportPath != home && !strings.HasPrefix(p.ImportPath, "infra/") {
				t.Errorf("%s imports %s, which belongs to %s", p.ImportPath, lib, home)
			}
		}
	}
}

// The check itself must be able to fail.
func TestTheArrowCatches(t *testing.T) {
	for _, bad := range [][2]string{
		{"core/lab", module + "brokers/nats"},
		{"core/audit", module + "chapters/03-outbox"},
		{"brokers/nats", module + "brokers/kafka"},
		{"chapters/02-after-commit", module + "chapters/01-dual-write"},
		{"core/bus", module + "core/pg"},
		{"core/audit", "github.com/gin-gonic/gin"},
		{"core/lab", "github.com/redis/go-redis/v9/internal/pool"},
		{"infra/servers", module + "core/bus"},
	} {
		if forbidden(bad[0], bad[1]) == "" {
			t.Errorf("%s may import %s", bad[0], bad[1])
		}
	}
	if why := forbidden("brokers/nats", module+"core/bus"); why != "" {
		t.Errorf("a driver may not import the vocabulary: %s", why)
	}
}

// The parts that an engineer may copy into another service compile there alone.
func TestGraduatedPackagesCompileAlone(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"bus", "checkpoint", "outbox", "inbox"} {
		copyPackage(t, filepath.Join("..", "core", name), filepath.Join(dir, "core", name))
	}
	for _, name := range []string{"go.mod", "go.sum"} {
		copyFile(t, filepath.Join("..", name), filepath.Join(dir, name))
	}
	cmd := exec.Command("go", "build", "-mod=mod", "./...")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("the copy does not compile: %v\n%s", err, out)
	}
}

func copyPackage(t *testing.T, from, to string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(from, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if !strings.HasSuffix(f, "_test.go") {
			copyFile(t, f, filepath.Join(to, filepath.Base(f)))
		}
	}
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	data, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// What an order.go may import keeps the lesson short.
func TestOrderFilesImportTheVocabularyOnly(t *testing.T) {
	vocabulary := []string{"core/bus", "core/shop", "core/checkpoint"}
	graduated := append(slices.Clone(vocabulary), "core/outbox", "core/inbox") // from chapter 4 on
	files, err := filepath.Glob("0*/order*.go")
	if err != nil || len(files) < 4 {
		t.Fatalf("order files: %v, %v", files, err)
	}
	for _, f := range files {
		allowed := vocabulary
		if f >= "04" {
			allowed = graduated
		}
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(string(text), "\n")
		if n := len(lines); n < 40 || n > 90 {
			t.Errorf("%s has %d lines, want 40 to 90", f, n)
		}
		for _, line := range lines {
			path, ours := strings.CutPrefix(strings.Trim(strings.TrimSpace(line), `"`), module)
			if ours && !slices.Contains(allowed, path) {
				t.Errorf("%s imports %s", f, path)
			}
		}
	}
}

// A chapter is read beside its text, on half a screen.
func TestChaptersAreNarrow(t *testing.T) {
	files, err := filepath.Glob("0*/*.go")
	if err != nil || len(files) < 30 {
		t.Fatalf("files of chapters: %v, %v", files, err)
	}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for i, line := range strings.Split(string(text), "\n") {
			if n := len([]rune(strings.ReplaceAll(line, "\t", "    "))); n > 88 {
				t.Errorf("%s:%d is %d columns wide, want at most 88", f, i+1, n)
			}
		}
	}
}
