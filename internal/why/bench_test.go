package why_test

import (
	"testing"

	"drover/internal/process"
	"drover/internal/why"
)

// BenchmarkJudge judges a process that is down, as an inquiry into a fleet does with each.
func BenchmarkJudge(b *testing.B) {
	c := why.Open()
	f := why.Facts{Agent: here(), Now: now(), Status: down(process.StateGivenUp, process.CauseExitStatus)}
	b.ReportAllocs()
	for b.Loop() {
		if !c.Judge(f).Wrong {
			b.Fatal("nothing is wrong")
		}
	}
}
