package process

import (
	"strconv"
	"strings"
	"time"
)

// Count formats a number of things: "1 start", "4 starts".
func Count(n int, one, many string) string {
	if n == 1 {
		many = one
	}
	return strconv.Itoa(n) + " " + many
}

// Round rounds a length of time for people: to milliseconds below a second, to tenths below 10 s, else to seconds.
func Round(d time.Duration) time.Duration {
	switch {
	case d < time.Second:
		return d.Round(time.Millisecond)
	case d < 10*time.Second:
		return d.Round(time.Second / 10)
	}
	return d.Round(time.Second)
}

// OrList is "a, b or c".
func OrList(words []string) string {
	last := len(words) - 1
	if last < 1 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:last], ", ") + " or " + words[last]
}
