package page

// DiffLine is a line of a comparison. Op is '+' for a line that came, '-' for one
// that went, ' ' for one that stayed, and '…' for Gap lines that stayed and are left out.
type DiffLine struct {
	Op  rune
	Gap int
	SourceLine
}

// Sign is Op as text.
func (d DiffLine) Sign() string { return string(d.Op) }

// Kind is Op as a name, for the style sheet.
func (d DiffLine) Kind() string {
	return map[rune]string{'+': "came", '-': "went", ' ': "stayed", '…': "gap"}[d.Op]
}

// around is how many lines that stayed are shown beside those that changed.
const around = 3

// Diff compares two sources line by line.
func Diff(before, after Source) []DiffLine { return fold(compare(before.Lines, after.Lines)) }

// compare walks along a longest common subsequence. Sources are short: the table has
// some ten thousand entries.
func compare(a, b []SourceLine) (out []DiffLine) {
	common := lengths(a, b)
	i, j := 0, 0
	for i < len(a) || j < len(b) {
		switch {
		case i < len(a) && j < len(b) && a[i].text == b[j].text:
			out = append(out, DiffLine{Op: ' ', SourceLine: b[j]})
			i, j = i+1, j+1
		case j == len(b) || i < len(a) && common[i+1][j] >= common[i][j+1]:
			out = append(out, DiffLine{Op: '-', SourceLine: a[i]})
			i++
		default:
			out = append(out, DiffLine{Op: '+', SourceLine: b[j]})
			j++
		}
	}
	return out
}

// lengths has the length of the longest common subsequence of a[i:] and b[j:].
func lengths(a, b []SourceLine) [][]int {
	table := make([][]int, len(a)+1)
	for i := range table {
		table[i] = make([]int, len(b)+1)
	}
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			if a[i].text == b[j].text {
				table[i][j] = table[i+1][j+1] + 1
			} else {
				table[i][j] = max(table[i+1][j], table[i][j+1])
			}
		}
	}
	return table
}

// fold leaves out what stayed, far from any change.
func fold(lines []DiffLine) (out []DiffLine) {
	near := make([]bool, len(lines))
	for i, l := range lines {
		for k := max(0, i-around); l.Op != ' ' && k < min(len(lines), i+around+1); k++ {
			near[k] = true
		}
	}
	for i, l := range lines {
		switch n := len(out); {
		case near[i]:
			out = append(out, l)
		case n > 0 && out[n-1].Op == '…':
			out[n-1].Gap++
		default:
			out = append(out, DiffLine{Op: '…', Gap: 1})
		}
	}
	return out
}
