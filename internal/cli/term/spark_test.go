package term_test

import (
	"math"
	"testing"

	"drover/internal/cli/term"
)

func TestSparkline(t *testing.T) {
	gap := math.NaN()
	for _, c := range []struct {
		values []float64
		mark   int
		width  int
		want   string
	}{
		{nil, -1, 10, ""},
		{[]float64{0, 1, 2, 3, 4, 5, 6, 7}, -1, 10, "▁▂▃▄▅▆▇█"},
		{[]float64{0, 0, 0}, -1, 10, "▁▁▁"},
		{[]float64{gap, gap, 5, gap, 0}, -1, 10, "··█·▁"},
		{[]float64{gap, gap}, -1, 10, "··"},
		{[]float64{7, 7, 1}, 1, 10, "█|▂"},
		{[]float64{0, 7, gap, 1, gap, gap, 3, 2}, -1, 4, "█▂·▄"},
		{[]float64{0, 1, 2, 3, 4, 5, 7}, 6, 3, "▂▄|"},
	} {
		if got := term.Sparkline(c.values, func(i int) bool { return i == c.mark }, c.width); got != c.want {
			t.Errorf("%v in %d: %s, want %s", c.values, c.width, got, c.want)
		}
	}
}
