// Package wildcard matches texts with the patterns in grants, filters and the policy of a host. It owns the meaning
// of the two special characters; its callers decide what a pattern applies to.
package wildcard

import (
	"strings"
	"unicode/utf8"
)

// IsPattern reports whether a text holds one of the special characters, "*" or "?", so that it may match others than
// itself.
func IsPattern(text string) bool { return strings.ContainsAny(text, "*?") }

// Match reports whether the whole text is of the pattern, in which "*" is any text, also none, and "?" any one
// character. It takes time proportional to the product of both lengths at worst.
func Match(pattern, text string) bool {
	star, retry := -1, 0 // where the last star is, and the text that it has not eaten yet
	p, t := 0, 0
	for t < len(text) {
		size := 1
		if p < len(pattern) && pattern[p] == '?' {
			_, size = utf8.DecodeRuneInString(text[t:])
		}
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, retry = p, t
			p++
		case p < len(pattern) && (pattern[p] == '?' || pattern[p] == text[t]):
			p++
			t += size
		case star >= 0:
			retry++
			p, t = star+1, retry
		default:
			return false
		}
	}
	return strings.Trim(pattern[p:], "*") == ""
}
