package process

import "strconv"

// Count formats a number of things: "1 start", "4 starts".
func Count(n int, one, many string) string {
	if n == 1 {
		many = one
	}
	return strconv.Itoa(n) + " " + many
}
