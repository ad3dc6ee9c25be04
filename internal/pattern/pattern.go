// Package pattern has the expressions by which callers select lines of text. All come through Parse, which bounds what
// an expression may cost before it is compiled.
package pattern

import (
	"fmt"
	"regexp"
	"regexp/syntax"
	"strings"
	"unicode/utf8"

	"drover/internal/colour"
)

// Bounds of the expressions of callers.
const (
	// Max is the longest expression in bytes, and MaxLine the part of a line that it looks at.
	Max     = 1000
	MaxLine = 4 << 10
	// mostSteps is how many steps an expression may have with its repetitions written out. Each byte of a line costs
	// at most as much time, and each step some 200 bytes of memory.
	mostSteps = 2000
	// mostWide is how many classes beyond ASCII an expression may have that ignores case: the parser looks at each of
	// their characters, and needs some milliseconds for each class.
	mostWide = 8
)

// Pattern is an expression (RE2) for lines of text. A nil Pattern matches every line.
type Pattern struct{ expression *regexp.Regexp }

// Parse compiles an expression of a caller, and returns nil for an empty one. It bounds the length and the size before
// it compiles. The caller checks the rights before. The error tells what is wrong, without the name of the field.
func Parse(text string) (*Pattern, error) {
	switch {
	case text == "":
		return nil, nil //nolint:nilnil // nil matches every line
	case len(text) > Max:
		return nil, fmt.Errorf("has %d bytes: expected at most %d", len(text), Max)
	case ignoresCase(text) && wideClasses(text) > mostWide:
		return nil, fmt.Errorf("ignores case in more than %d classes beyond ASCII: expected fewer, or no (?i)", mostWide)
	}
	tree, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return nil, fmt.Errorf("is not a regular expression (RE2): %w", err)
	}
	if steps(tree) > mostSteps {
		return nil, fmt.Errorf("has more than %d steps with its repetitions written out: expected fewer or smaller {…}",
			mostSteps)
	}
	expression, err := regexp.Compile(text)
	if err != nil {
		return nil, fmt.Errorf("is not a regular expression (RE2): %w", err)
	}
	return &Pattern{expression}, nil
}

// ignoresCase reports whether an expression may have the flag i.
func ignoresCase(text string) bool {
	for {
		_, after, found := strings.Cut(text, "(?")
		if !found {
			return false
		}
		if strings.Contains(after[:len(after)-len(strings.TrimLeft(after, "imsU-"))], "i") {
			return true
		}
		text = after
	}
}

// wideClasses counts what may be a class or a range of characters beyond ASCII.
func wideClasses(text string) (n int) {
	n = strings.Count(text, `\x{`) + strings.Count(text, `\p`) + strings.Count(text, `\P`)
	for rest := text; ; {
		_, after, found := strings.Cut(rest, "-")
		if !found {
			return n
		}
		if after != "" && after[0] >= utf8.RuneSelf {
			n++
		}
		rest = after
	}
}

// steps estimates how many steps an expression has with its repetitions written out. It stops to count at twice
// mostSteps.
func steps(tree *syntax.Regexp) int {
	n := 1
	switch tree.Op { //nolint:exhaustive // any other one is one step
	case syntax.OpLiteral:
		n = len(tree.Rune)
	case syntax.OpRepeat:
		n = 0
	}
	for _, sub := range tree.Sub {
		n = min(n+steps(sub), 2*mostSteps)
	}
	if tree.Op == syntax.OpRepeat {
		times := tree.Max
		if times < 0 {
			times = tree.Min + 1
		}
		n = min(n*max(times, 1), 2*mostSteps)
	}
	return n
}

// String returns the expression.
func (p *Pattern) String() string {
	if p == nil {
		return ""
	}
	return p.expression.String()
}

// Match reports whether a line matches in its first MaxLine bytes. Colours do not count.
func (p *Pattern) Match(line []byte) bool {
	return p == nil || p.expression.Match(colour.Strip(line[:min(len(line), MaxLine)]))
}
