package page

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"mime"
	"path"
)

//go:embed static/*
var staticFiles embed.FS

// assets are the files that a page loads. Their address has the hash of them all, so
// that a browser may keep them for ever.
type assets struct {
	build string
	files map[string][]byte
}

func readAssets(files fs.FS) (assets, error) {
	a := assets{files: map[string][]byte{}}
	entries, err := fs.ReadDir(files, "static")
	if err != nil {
		return a, err
	}
	hash := sha256.New()
	for _, e := range entries { // sorted by name
		raw, err := fs.ReadFile(files, path.Join("static", e.Name()))
		if err != nil {
			return a, err
		}
		hash.Write([]byte(e.Name()))
		hash.Write(raw)
		a.files[e.Name()] = raw
	}
	a.build = hex.EncodeToString(hash.Sum(nil))[:12]
	return a, nil
}

// url is the address of a file.
func (a assets) url(name string) string { return "/assets/" + a.build + "/" + name }

// Asset returns a file of this build and its type; ok is false for any other.
func (p *Pages) Asset(build, name string) (content []byte, contentType string, ok bool) {
	content, ok = p.assets.files[name]
	if !ok || build != p.assets.build {
		return nil, "", false
	}
	return content, typeOf(name), true
}

// Favicon is the icon, for browsers that ask for /favicon.ico by themselves.
func (p *Pages) Favicon() (content []byte, contentType string) {
	return p.assets.files["favicon.svg"], typeOf("favicon.svg")
}

// typeOf does not ask the machine, which may not know modules.
func typeOf(name string) string {
	switch path.Ext(name) {
	case ".js":
		return "text/javascript; charset=utf-8"
	case ".svg":
		return "image/svg+xml"
	case ".css":
		return "text/css; charset=utf-8"
	}
	return mime.TypeByExtension(path.Ext(name))
}
