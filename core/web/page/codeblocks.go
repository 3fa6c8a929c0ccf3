package page

import (
	"bytes"
	"fmt"
	"html/template"

	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/renderer"
	"github.com/yuin/goldmark/util"
)

// codeBlocks renders code blocks with coloured tokens; a command can be copied.
type codeBlocks struct{}

// RegisterFuncs takes over the fenced blocks.
func (codeBlocks) RegisterFuncs(r renderer.NodeRendererFuncRegisterer) {
	r.Register(ast.KindFencedCodeBlock, renderCode)
}

func renderCode(w util.BufWriter, source []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
	if !entering {
		return ast.WalkContinue, nil
	}
	fenced := n.(*ast.FencedCodeBlock)
	lang := string(fenced.Language(source))
	var code bytes.Buffer
	for i := range fenced.Lines().Len() {
		segment := fenced.Lines().At(i)
		code.Write(segment.Value(source))
	}
	copyable := ""
	if lang == "sh" {
		copyable = `<button type="button" class="copy" hidden></button>`
	}
	_, _ = fmt.Fprintf(w, `<div class="block">%s<pre tabindex="0" class="is-%s"><code>`, copyable, template.HTMLEscapeString(lang))
	for _, line := range coloured(lang, code.String()) {
		_, _ = fmt.Fprintf(w, "%s\n", line)
	}
	_, err := w.WriteString("</code></pre></div>\n")
	return ast.WalkSkipChildren, err
}
