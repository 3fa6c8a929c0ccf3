package web_test

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"outboxplayground/core/pg/pgtest"
	"outboxplayground/core/web"
)

func jsonCases() map[string]string {
	return map[string]string{
		`{}`: "", ` {"a":"b"} `: "", `{"a":[1,2.5,-0,1e9,"\n\"\\\/\u00e9"]}`: "", `{"a":{"a":1},"b":{"a":1}}`: "",
		`{"a":"\ud83d\ude00"}`: "", `{"a":"\uD83D\uDE00x\uFFFF"}`: "", `{"a":"\\ud800"}`: "", `{"a":"\\\\u0000"}`: "",
		`{"a":9007199254740993}`: "", `{"a":1e9999}`: "", `[[1],[1]]`: "", `"x"`: "", `{"a":"{[\"]}"}`: "",
		`{"a":"\u0000"}`: "not_storable", `{"\u0000":1}`: "not_storable", `{"a":"\ud800"}`: "not_storable",
		`{"a":"\ud800x"}`: "not_storable", `{"a":"\ud800\n"}`: "not_storable", `{"a":"\ud800\u0041"}`: "not_storable",
		`{"a":"\ude00\ude00"}`: "not_storable", `{"a":"\ude00"}`: "not_storable", `{"a":"\ude00\ud83d"}`: "not_storable", `{"a":"\\\ud800"}`: "not_storable",
		`{"a":1e400000}`: "not_storable", `{"a":-1E+400000}`: "not_storable", `{"a":1e-400000}`: "not_storable",
		`{"a":1e99999999999999999999}`: "not_storable", `{"a":` + strings.Repeat("9", 20_000) + `}`: "not_storable",
		"{\"a\":\"\xed\xa0\x80\"}": "not_storable", "\xff": "not_storable",
		`{"a":1,"a":2}`: "invalid_input", `{"a":[{"b":1,"b":1}]}`: "invalid_input", `{"a":1,"\u0061":2}`: "invalid_input",
		`{"":1,"":2}`: "invalid_input", `{"a":{},"a":[]}`: "invalid_input", strings.Repeat("[", 33) + strings.Repeat("]", 33): "invalid_input",
		strings.Repeat("[", 32) + strings.Repeat("]", 32): "", strings.Repeat("{", 99): "invalid_input",
		``: "malformed_json", ` `: "malformed_json", `{`: "malformed_json", `{"a"}`: "malformed_json", `{"a":1,}`: "malformed_json",
		`{"a":1}x`: "malformed_json", `{"a":1}{}`: "malformed_json", `{a:1}`: "malformed_json", `{'a':1}`: "malformed_json",
		`{"a":01}`: "malformed_json", `{"a":.5}`: "malformed_json", `{"a":NaN}`: "malformed_json", `{"a":"\u12"}`: "malformed_json",
		`{"a":"\u`: "malformed_json", `{"a":"\`: "malformed_json", `{"a":"\x"}`: "malformed_json", "{\"a\":\"\n\"}": "malformed_json",
		"\ufeff{}": "malformed_json", `{"a":"\u00`: "malformed_json", `nul`: "malformed_json", `{"a":1]`: "malformed_json",
	}
}

func TestCheckJSON(t *testing.T) {
	for raw, want := range jsonCases() {
		if got := web.CheckJSON([]byte(raw)); got != want {
			t.Errorf("%.60q: %q, want %q", raw, got, want)
		}
	}
}

// The last word is Postgres's: what the check lets through it must store.
func TestWhatIsAcceptedPostgresStores(t *testing.T) {
	pool, _ := pgtest.Schema(t, 1)
	for raw, want := range jsonCases() {
		_, err := pool.Exec(t.Context(), `SELECT $1::text::jsonb`, raw)
		if want == "" && err != nil {
			t.Errorf("%.60q passes, and Postgres says %v", raw, err)
		}
	}
}

func FuzzCheckJSON(f *testing.F) {
	for raw := range jsonCases() {
		f.Add([]byte(raw))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if web.CheckJSON(raw) != "" {
			return
		}
		if !json.Valid(raw) || !utf8.Valid(raw) {
			t.Errorf("%q passes and is no JSON", raw)
		}
		var v any
		d := json.NewDecoder(strings.NewReader(string(raw)))
		d.UseNumber()
		if err := d.Decode(&v); err != nil {
			t.Errorf("%q passes and cannot be decoded: %v", raw, err)
		}
		// Go writes U+FFFD for half a surrogate pair: none may come from an escape.
		again, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(again), `\u0000`) && !strings.Contains(string(raw), `\\`) {
			t.Errorf("%q passes and holds a NUL", raw)
		}
		if strings.ContainsRune(string(again), '\ufffd') && !strings.ContainsRune(string(raw), '\ufffd') && !strings.Contains(strings.ToLower(string(raw)), `\ufffd`) {
			t.Errorf("%q passes and holds half a surrogate pair", raw)
		}
	})
}
