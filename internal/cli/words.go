package cli

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"drover/internal/why"
)

// since is the age of a moment; nothing where there is none.
func since(t *time.Time) string {
	if t == nil {
		return ""
	}
	return why.Age(time.Since(*t))
}

// stamp is a moment in the local zone; nothing where there is none.
func stamp(t *time.Time) string {
	if t == nil {
		return ""
	}
	return t.Local().Format("2006-01-02 15:04:05 MST")
}

// size is bytes in the unit that suits them.
func size(bytes int64) string {
	value, unit := float64(bytes), "B"
	for _, next := range []string{"KiB", "MiB", "GiB", "TiB"} {
		if value < 1024 {
			break
		}
		value, unit = value/1024, next
	}
	if unit == "B" {
		return fmt.Sprintf("%d B", bytes)
	}
	return fmt.Sprintf("%.1f %s", value, unit)
}

func percent(p float64) string { return fmt.Sprintf("%.1f%%", p) }

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// nearest returns up to three of the words that are a few letters away from one, or hold it.
func nearest(word string, words []string) []string {
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

// swapped reports whether two words are of the same letters and differ in two places: sotp and stop.
func swapped(a, b string) bool {
	x, y := []rune(a), []rune(b)
	slices.Sort(x)
	slices.Sort(y)
	return slices.Equal(x, y) && distance(a, b) <= 2
}

// distance counts the letters that must be changed, added or left out to make b of a (Levenshtein).
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
