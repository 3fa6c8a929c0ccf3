package web

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"unicode/utf8"
)

// maxDepth bounds the nesting of a body. Ours needs 2.
const maxDepth = 32

// maxExponent is below what numeric, hence JSONB, can hold: 131,072 digits before
// the point and 16,383 after it.
const maxExponent = 10_000

// checkJSON accepts a body that means the same to everyone who reads it and that
// Postgres can store as JSONB. It looks at the raw bytes, because Go's decoder
// repairs silently what Postgres refuses: a lone surrogate becomes U+FFFD.
func checkJSON(raw []byte) *problem {
	if !utf8.Valid(raw) {
		return notStorable("the body is not valid UTF-8")
	}
	if p := scanRaw(raw); p != nil {
		return p
	}
	if !json.Valid(raw) {
		return newProblem(http.StatusBadRequest, "malformed_json",
			"the body is not one JSON value: "+syntaxError(raw), "send a JSON object and nothing after it")
	}
	return checkTokens(raw)
}

func notStorable(detail string) *problem {
	return newProblem(http.StatusUnprocessableEntity, "not_storable", detail,
		"send text that PostgreSQL can store: valid Unicode without the NUL character")
}

func syntaxError(raw []byte) string {
	var ignored any
	err := json.Unmarshal(raw, &ignored)
	return fmt.Sprint(err)
}

// scanRaw walks over the bytes, which need not be valid JSON yet, and judges depth
// and escapes.
func scanRaw(raw []byte) *problem {
	depth, inString := 0, false
	for i := 0; i < len(raw); i++ {
		switch b := raw[i]; {
		case inString && b == '\\':
			size, complaint := escape(raw[i:])
			if complaint != "" {
				return notStorable(complaint)
			}
			i += size - 1
		case b == '"':
			inString = !inString
		case inString:
		case b == '{' || b == '[':
			if depth++; depth > maxDepth {
				return invalid(fieldError{"body", fmt.Sprintf("nested deeper than %d levels", maxDepth)})
			}
		case b == '}' || b == ']':
			depth--
		}
	}
	return nil
}

// escape judges the escape at the start of s and returns its length: a pair of
// surrogates is one escape, half a pair is none.
func escape(s []byte) (size int, complaint string) {
	unit, ok := hexUnit(s)
	switch {
	case !ok:
		return 2, "" // \n and its like; what is malformed the parser will refuse
	case unit == 0:
		return 0, `the escape \u0000 cannot be stored`
	case unit < 0xD800 || unit > 0xDFFF:
		return 6, ""
	}
	second, ok := hexUnit(s[6:])
	if unit > 0xDBFF || !ok || second < 0xDC00 || second > 0xDFFF {
		return 0, fmt.Sprintf(`the escape %s is half of a surrogate pair`, s[:6])
	}
	return 12, ""
}

// hexUnit reads \uXXXX.
func hexUnit(s []byte) (uint64, bool) {
	if len(s) < 6 || s[0] != '\\' || s[1] != 'u' {
		return 0, false
	}
	n, err := strconv.ParseUint(string(s[2:6]), 16, 16)
	return n, err == nil
}

// checkTokens walks over valid JSON and refuses a key that comes twice in one
// object, because readers disagree about which one counts, and a number that is
// too large for the database.
func checkTokens(raw []byte) *problem {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	w := &keyWatch{}
	for {
		token, err := d.Token()
		if err != nil {
			return nil // the end: the JSON is known to be valid
		}
		if p := w.see(token); p != nil {
			return p
		}
	}
}

// keyWatch knows where in the nesting a token stands. Of an array keys is nil.
type keyWatch struct{ open []level }

type level struct {
	keys  map[string]bool
	isKey bool // the next token of this object is a key
}

func (w *keyWatch) see(token json.Token) *problem {
	switch t := token.(type) {
	case json.Delim:
		w.nest(t)
		return nil
	case json.Number:
		if tooLarge(t.String()) {
			return notStorable("a number is too large to be stored")
		}
	case string:
		if top := w.top(); top != nil && top.keys != nil && top.isKey {
			return top.key(t)
		}
	}
	w.valueEnds()
	return nil
}

func (w *keyWatch) top() *level {
	if len(w.open) == 0 {
		return nil
	}
	return &w.open[len(w.open)-1]
}

func (w *keyWatch) nest(d json.Delim) {
	switch d {
	case '{':
		w.open = append(w.open, level{keys: map[string]bool{}, isKey: true})
	case '[':
		w.open = append(w.open, level{})
	default:
		w.open = w.open[:len(w.open)-1]
		w.valueEnds()
	}
}

func (w *keyWatch) valueEnds() {
	if top := w.top(); top != nil {
		top.isKey = true
	}
}

func (l *level) key(name string) *problem {
	if l.keys[name] {
		return invalid(fieldError{shorten(name), "given twice in one object"})
	}
	l.keys[name], l.isKey = true, false
	return nil
}

func tooLarge(number string) bool {
	mantissa, exponent, _ := strings.Cut(strings.ToLower(number), "e")
	if len(mantissa) > maxExponent {
		return true
	}
	if exponent == "" {
		return false
	}
	n, err := strconv.Atoi(exponent)
	return err != nil || n > maxExponent || n < -maxExponent
}

// shorten keeps a stranger's text from filling an error message.
func shorten(s string) string {
	const most = 60
	if r := []rune(s); len(r) > most {
		return string(r[:most]) + "…"
	}
	return s
}
