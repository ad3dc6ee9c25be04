// Package spelling finds the words that a misspelt word may mean.
package spelling

import (
	"slices"
	"strings"
)

// Nearest returns up to three words that are a few letters away from word, or contain it.
func Nearest(word string, words []string) []string {
	word = strings.ToLower(word)
	var near []string
	seen := map[string]bool{}
	for _, w := range words {
		if seen[w] || len(near) == 3 {
			continue
		}
		lower := strings.ToLower(w)
		if distance(word, lower) <= max(1, len(word)/4) || swapped(word, lower) || len(word) > 2 &&
			strings.Contains(lower, word) {
			seen[w] = true
			near = append(near, w)
		}
	}
	return near
}

// swapped reports whether two words have the same letters and differ in two places, as sotp and stop.
func swapped(a, b string) bool {
	x, y := []rune(a), []rune(b)
	slices.Sort(x)
	slices.Sort(y)
	return slices.Equal(x, y) && distance(a, b) <= 2
}

// distance counts the letters to change, add or leave out to turn a into b (Levenshtein).
func distance(a, b string) int {
	x, y := []rune(a), []rune(b)
	row := make([]int, len(y)+1)
	for j := range row {
		row[j] = j
	}
	for i := range x {
		diagonal := row[0]
		row[0] = i + 1
		for j := range y {
			change := diagonal
			if x[i] != y[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, diagonal+1, row[j]+1)
		}
	}
	return row[len(y)]
}
