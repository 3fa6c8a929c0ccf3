package page

import "fmt"

// Plain says the sentences of a language as plain text, for pictures, which escape
// them themselves and have no room for marks. A key without words is shown as it is.
func (p *Pages) Plain(l Lang) func(key string, args ...any) string {
	return func(key string, args ...any) string {
		text, ok := p.words[key]
		if !ok {
			return key
		}
		said, _ := l.Pick(text)
		if len(args) == 0 {
			return said
		}
		return fmt.Sprintf(said, args...)
	}
}
