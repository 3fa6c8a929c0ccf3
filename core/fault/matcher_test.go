package fault

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

// However a stream is cut into chunks, the matcher fires in the chunk that
// completes the pattern, as a search of the whole prefix would.
func TestMatcherAgreesWithSearch(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 20000 {
		want := letters(random, 1+random.IntN(6))
		m := matcher{want: want}
		var seen []byte
		for range 8 {
			chunk := letters(random, 1+random.IntN(8))
			had := bytes.Contains(seen, want)
			seen = append(seen, chunk...)
			if now := bytes.Contains(seen, want); m.feed(chunk) != now && !had {
				t.Fatalf("want %q in %q, chunk %q: expected %v", want, seen, chunk, now)
			}
		}
	}
}

func letters(random *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = "ab"[random.IntN(2)]
	}
	return b
}
