package browsertest

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"testing"
)

// export: a run as one file, opened from the disk: nothing is fetched, its timeline
// can be stepped through.
func (d *desk) export(t *testing.T) {
	resp, err := http.Get(d.api + "/runs/" + d.run + "/export")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	page, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%d %v: %s", resp.StatusCode, err, page)
	}
	file := filepath.Join(t.TempDir(), "run.html")
	if err := os.WriteFile(file, page, 0o600); err != nil {
		t.Fatal(err)
	}
	p := d.tabAt(t, "file://")
	p.open(file)
	p.settled()
	p.written("en")
	p.light()
	p.accessible(axe(t))
	p.stepsThrough()
}
