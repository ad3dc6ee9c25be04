package supervisor_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"drover/internal/agent/lifecycle"
	"drover/internal/agent/supervisor"
	"drover/internal/process"
)

func TestCounts(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		want := supervisor.Counts{States: map[string]int{"flapping": 0, "unhealthy": 0, "not-ready": 0}}
		for _, state := range lifecycle.States() {
			want.States[string(state)] = 0
		}
		if d := cmp.Diff(want, r.Counts()); d != "" {
			t.Errorf("of nothing (-want +got):\n%s", d)
		}
		for _, name := range []string{"a", "b", "c"} {
			r.do(process.Start, name, r.spec(name))
		}
		r.do(process.Stop, "c", r.spec("c"))
		r.pass(time.Minute)
		want.States["running"], want.States["stopped"], want.Hosted = 2, 1, 2
		if d := cmp.Diff(want, r.Counts()); d != "" {
			t.Errorf("of three (-want +got):\n%s", d)
		}
	})
}
