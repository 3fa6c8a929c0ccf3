package web

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"
)

// fromQuery reads a query string or a form body. strict refuses unknown names.
func fromQuery(raw string, params []param, strict bool) (input, []fieldError, *problem) {
	values, err := url.ParseQuery(raw)
	if err != nil {
		return nil, nil, newProblem(http.StatusBadRequest, "malformed_query",
			"the parameters cannot be read: a % without two hexadecimal digits, or a semicolon",
			"write & between parameters, and %25 for %")
	}
	in, errs := input{}, []fieldError(nil)
	for _, name := range slices.Sorted(maps.Keys(values)) {
		parts := values[name]
		p, known := find(params, name)
		switch {
		case !storable(append([]string{name}, parts...)):
			return nil, nil, notStorable(fmt.Sprintf("the parameter %q is not valid UTF-8 or has a NUL character", shorten(name)))
		case known:
			errs = in.take(errs, name, func() (any, error) { return p.fromText(parts) })
		case strict:
			errs = append(errs, unknownField(name, params))
		}
	}
	return in, errs, nil
}

// fromJSON reads a JSON object.
func fromJSON(raw []byte, params []param) (input, []fieldError, *problem) {
	if p := checkJSON(raw); p != nil {
		return nil, nil, p
	}
	var fields map[string]json.RawMessage
	if bytes.TrimSpace(raw)[0] != '{' || json.Unmarshal(raw, &fields) != nil {
		return nil, nil, invalid(fieldError{"body", "must be a JSON object"})
	}
	in, errs := input{}, []fieldError(nil)
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		p, known := find(params, name)
		if !known {
			errs = append(errs, unknownField(name, params))
			continue
		}
		errs = in.take(errs, name, func() (any, error) { return p.fromJSON(fields[name]) })
	}
	return in, errs, nil
}

// take keeps a value that can be read and notes a complaint about one that cannot.
func (in input) take(errs []fieldError, name string, read func() (any, error)) []fieldError {
	value, err := read()
	if err != nil {
		return append(errs, fieldError{name, err.Error()})
	}
	in[name] = value
	return errs
}

func find(params []param, name string) (param, bool) {
	i := slices.IndexFunc(params, func(p param) bool { return p.name == name })
	if i < 0 {
		return param{}, false
	}
	return params[i], true
}

func storable(texts []string) bool {
	return !slices.ContainsFunc(texts, func(s string) bool {
		return !utf8.ValidString(s) || strings.ContainsRune(s, 0)
	})
}

// unknownField names what is known, because most unknown fields are misspelt ones.
func unknownField(name string, params []param) fieldError {
	if strings.HasPrefix(name, "{") {
		return fieldError{"body", "looks like JSON but was sent as a form: add -H 'Content-Type: application/json'"}
	}
	if len(params) == 0 {
		return fieldError{shorten(name), "unknown; this call takes no parameters"}
	}
	known := make([]string, len(params))
	for i, p := range params {
		known[i] = p.name
	}
	return fieldError{shorten(name), "unknown; known are " + strings.Join(known, ", ")}
}
