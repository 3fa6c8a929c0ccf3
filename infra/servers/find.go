package servers

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
)

// findProgram looks for a program in PATH, then where the patterns lead; the
// newest version comes first. Empty means that there is none.
func findProgram(name string, patterns ...string) string {
	if path, err := exec.LookPath(name); err == nil {
		if abs, err := filepath.Abs(path); err == nil {
			return abs
		}
	}
	if all := globNewest(patterns...); len(all) > 0 {
		return all[0]
	}
	return ""
}

// globNewest returns the files that match, those with the highest numbers in
// their path first.
func globNewest(patterns ...string) []string {
	var all []string
	for _, p := range patterns {
		found, _ := filepath.Glob(p)
		slices.SortFunc(found, func(a, b string) int { return slices.Compare(numbers(b), numbers(a)) })
		all = append(all, found...)
	}
	return all
}

func numbers(s string) []int {
	var ns []int
	for _, word := range strings.FieldsFunc(s, func(r rune) bool { return r < '0' || r > '9' }) {
		n, _ := strconv.Atoi(word)
		ns = append(ns, n)
	}
	return ns
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// withVersion adds to a library's name the version that this binary was built
// with. A test binary does not record it; then the name stands alone.
func withVersion(library, module string) string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return library
	}
	for _, m := range info.Deps {
		if m.Path == module {
			return library + " " + strings.TrimPrefix(m.Version, "v")
		}
	}
	return library
}
