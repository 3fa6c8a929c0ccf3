package main

import (
	"crypto/sha256"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"outboxplayground/core/audit"
)

// guarantees is docs/guarantees.md: what a whole matrix has measured. The tables
// are for readers; the same cells stand as JSON in a comment at the end, from which
// the rest of the file can be made again.
type guarantees struct {
	AsOf     string      `json:"as_of"` // the day
	Machine  string      `json:"machine"`
	Took     string      `json:"took"`
	Parallel int         `json:"parallel"`
	Cells    []guarantee `json:"cells"`
}

// guarantee is one measured cell, or one that does not apply.
type guarantee struct {
	Chapter  int            `json:"chapter"`
	Variant  string         `json:"variant"`
	Bus      string         `json:"bus"`
	Fault    string         `json:"fault"`
	Declared string         `json:"declared"`
	Server   string         `json:"server,omitempty"` // mode and version
	Valid    audit.Validity `json:"valid,omitempty"`
	Measured *audit.Verdict `json:"measured,omitempty"`
	Late     int            `json:"late,omitempty"`
	Differs  string         `json:"differs,omitempty"`
	// Sources is the hash of what the cell rests on.
	Sources string `json:"sources"`
}

// gather makes the table from a finished matrix. root is the project's folder.
func gather(root string, cells []*cell, took time.Duration, parallel int) (guarantees, error) {
	g := guarantees{AsOf: time.Now().UTC().Format(time.DateOnly), Took: brief(took), Parallel: parallel,
		Machine: fmt.Sprintf("%s/%s, %d cores, %s", runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), runtime.Version())}
	hashes := map[string]string{}
	for _, c := range cells {
		key := fmt.Sprintf("%d/%s", c.Chapter, c.Bus)
		if hashes[key] == "" {
			hash, err := sources(root, c.Chapter, c.Bus)
			if err != nil {
				return g, err
			}
			hashes[key] = hash
		}
		cell := guarantee{Chapter: c.Chapter, Variant: c.Variant, Bus: c.Bus, Fault: c.Fault,
			Declared: c.Declared, Differs: c.Differs, Sources: hashes[key]}
		if r := c.Report; r != nil {
			cell.Server = strings.TrimSpace(r.Mode + " " + r.Version)
			cell.Valid, cell.Measured, cell.Late = r.Valid, &r.Measured, r.Late
		}
		g.Cells = append(g.Cells, cell)
	}
	return g, nil
}

// sources hashes the code that a cell rests on: the chapter, the core and the
// driver, tests left out.
func sources(root string, chapter int, busName string) (string, error) {
	hash := sha256.New()
	for _, c := range contents() {
		if c.Number != chapter {
			continue
		}
		for _, dir := range []string{fmt.Sprintf("chapters/%02d-%s", c.Number, c.Slug), "core", "brokers/" + busName} {
			if err := addSources(hash, root, dir); err != nil {
				return "", err
			}
		}
		return fmt.Sprintf("%x", hash.Sum(nil)[:5]), nil
	}
	return "", fmt.Errorf("there is no chapter %d", chapter)
}

// addSources writes the names and texts of a folder's Go files, in order.
func addSources(to io.Writer, root, dir string) error {
	return filepath.WalkDir(filepath.Join(root, dir), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(to, "%s %d\n%s", filepath.ToSlash(name), len(text), text)
		return err
	})
}

// writeGuarantees writes the file of a whole matrix. It stands in the project's
// folder, in docs, and the sources are found from there.
func writeGuarantees(path string, cells []*cell, took time.Duration, parallel int) error {
	g, err := gather(filepath.Join(filepath.Dir(path), ".."), cells, took, parallel)
	if err != nil {
		return err
	}
	text, err := g.markdown()
	if err != nil {
		return err
	}
	return os.WriteFile(path, text, 0o644)
}
