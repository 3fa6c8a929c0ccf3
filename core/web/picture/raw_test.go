package picture

import (
	"fmt"
	"strings"
	"testing"

	"outboxplayground/core/lab"
)

// A driver's words are kept beside the step and are no part of its sentence; the class
// of the failure is, where the driver has named one.
func TestDriversWordsStandBesideTheStep(t *testing.T) {
	say := func(key string, args ...any) string {
		if strings.HasSuffix(key, ".strange") {
			return key // there are no words for this one
		}
		return "said " + fmt.Sprint(append([]any{key}, args...)...)
	}
	for text, want := range map[string]struct{ tell, raw string }{
		"unavailable: dial tcp: <refused>":   {"said picture.tell.publish-failed.unavailable", "dial tcp: <refused>"},
		"rejected: kafka: unknown topic":     {"said picture.tell.publish-failed.rejected", "kafka: unknown topic"},
		"strange: something: nobody foresaw": {"said picture.tell.publish-failed", "strange: something: nobody foresaw"},
	} {
		tl := NewTimeline(say, journal("0 client order", "1 relay publish-failed "+text), nil, true)
		s := tl.Steps[1]
		if !strings.HasPrefix(s.Tell, want.tell) || strings.Contains(s.Tell, "tcp") || s.Raw != want.raw || s.Sign != Fail {
			t.Errorf("%s: %+v", text, s)
		}
	}
	answered := NewTimeline(say, lab.EventTrail{Timeline: journal("0 client order", "1 client answer 503 pool: closed").Timeline}, nil, true).Steps[1]
	if strings.Contains(answered.Tell, "pool") || answered.Raw != "pool: closed" || answered.Word != "503" {
		t.Errorf("%+v", answered)
	}
}
