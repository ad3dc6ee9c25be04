package process

import "strconv"

// Count is a number of things in words: "1 start", "4 starts".
func Count(n int, one, many string) string {
	if n == 1 {
		many = one
	}
	return strconv.Itoa(n) + " " + many
}
