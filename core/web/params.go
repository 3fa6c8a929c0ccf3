package web

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/gin-gonic/gin"
)

// param is a parameter of a call: how it is called, and how it is read.
type param struct {
	name string
	// fromText reads what a query or a form says; a list may come in several parts.
	fromText func(parts []string) (any, error)
	// fromJSON reads a JSON value.
	fromJSON func(raw []byte) (any, error)
}

func text(name string) param { return param{name, single(identity), jsonString} }

func list(name string) param {
	split := func(parts []string) (any, error) { return strings.Split(strings.Join(parts, ","), ","), nil }
	return param{name, split, jsonStrings}
}

func flag(name string) param { return param{name, single(parseFlag), literal(parseFlag)} }

func number(name string) param { return param{name, single(parseNumber), literal(parseNumber)} }

// chapterParam is a number, taken as text: one that no chapter has is another kind
// of mistake than a malformed one.
func chapterParam() param {
	return param{"chapter", single(identity), func(raw []byte) (any, error) {
		if raw[0] == '"' {
			return jsonString(raw)
		}
		return literal(identity)(raw)
	}}
}

func identity(s string) (any, error) { return s, nil }

func parseFlag(s string) (any, error) {
	switch s {
	case "0", "false":
		return false, nil
	case "1", "true":
		return true, nil
	}
	return nil, fmt.Errorf("must be 0, 1, true or false")
}

// seedParam takes every seed that the command line takes: a result may have any.
func seedParam() param { return param{"seed", single(parseSeed), literal(parseSeed)} }

func parseSeed(s string) (any, error) {
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil || strconv.FormatUint(n, 10) != s {
		return nil, fmt.Errorf("must be a whole number below 2^64")
	}
	return n, nil
}

func parseNumber(s string) (any, error) {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 0 || strconv.FormatInt(n, 10) != s {
		return nil, fmt.Errorf("must be a whole number")
	}
	return n, nil
}

// rowID reads the number of a row from the path, spelt as we spell it.
func rowID(c *gin.Context) (int64, error) {
	n, err := parseNumber(c.Param("id"))
	if err != nil {
		return 0, err
	}
	return n.(int64), nil
}

// single refuses a parameter that was given more than once: nobody can know which
// of them was meant.
func single(parse func(string) (any, error)) func([]string) (any, error) {
	return func(parts []string) (any, error) {
		if len(parts) != 1 {
			return nil, fmt.Errorf("given %d times", len(parts))
		}
		return parse(parts[0])
	}
}

// literal reads a JSON number, true or false.
func literal(parse func(string) (any, error)) func([]byte) (any, error) {
	return func(raw []byte) (any, error) {
		if strings.ContainsRune(`"[{n`, rune(raw[0])) {
			return nil, fmt.Errorf("has the wrong type")
		}
		return parse(string(raw))
	}
}

func jsonString(raw []byte) (any, error) {
	var s string
	if raw[0] != '"' || json.Unmarshal(raw, &s) != nil {
		return nil, fmt.Errorf("must be a string")
	}
	return s, nil
}

func jsonStrings(raw []byte) (any, error) {
	var items []json.RawMessage
	if raw[0] != '[' || json.Unmarshal(raw, &items) != nil {
		return nil, fmt.Errorf("must be an array of strings")
	}
	texts := make([]string, len(items))
	for i, item := range items {
		s, err := jsonString(item)
		if err != nil {
			return nil, fmt.Errorf("must be an array of strings; number %d is none", i+1)
		}
		texts[i] = s.(string)
	}
	return texts, nil
}
