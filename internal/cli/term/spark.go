package term

import (
	"math"
	"strings"
)

// The signs of a sparkline for a time without a value, and for a time with a mark.
const (
	sparkGap  = '·'
	sparkMark = '|'
)

// Sparkline draws values as a line of at most that many blocks. The highest block is the greatest value, and the lowest
// block is 0. A block is the greatest of its values. NaN is no value: a block without a value is a dot. A block with a
// mark is a bar.
func Sparkline(values []float64, marked func(i int) bool, width int) string {
	blocks := []rune("▁▂▃▄▅▆▇█")
	most := 0.0
	for _, v := range values {
		if v > most {
			most = v
		}
	}
	width = min(width, len(values))
	var line strings.Builder
	for n := range width {
		value, mark := math.NaN(), false
		for i := n * len(values) / width; i < (n+1)*len(values)/width; i++ {
			mark = mark || marked(i)
			if math.IsNaN(value) || values[i] > value {
				value = values[i]
			}
		}
		switch {
		case mark:
			line.WriteRune(sparkMark)
		case math.IsNaN(value):
			line.WriteRune(sparkGap)
		case most == 0:
			line.WriteRune(blocks[0])
		default:
			line.WriteRune(blocks[int(math.Round(max(value, 0)/most*float64(len(blocks)-1)))])
		}
	}
	return line.String()
}
