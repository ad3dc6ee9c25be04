package remote

import (
	"math"

	v1 "drover/api/v1"
	"drover/internal/cli/term"
)

// Sparkline draws a figure of a history as term.Sparkline. A restart is its mark.
func Sparkline(h *v1.UsageHistory, of func(*v1.UsageStep) float64, width int) string {
	steps := h.Window()
	values := make([]float64, len(steps))
	for i, s := range steps {
		if values[i] = math.NaN(); s != nil {
			values[i] = of(s)
		}
	}
	return term.Sparkline(values, func(i int) bool { return steps[i] != nil && steps[i].Restarted }, width)
}
