package processes

import (
	"strings"
	"testing"

	"drover/client"
	"drover/internal/words"
)

// TestStateOfNotice: a process that runs without a part of its spec is not as it should be, although nothing is wrong.
func TestStateOfNotice(t *testing.T) {
	for cause, want := range map[string]string{"not-in-force": "notice", "stopped-by-operation": "as it should be"} {
		p := whyPrinter{lang: words.English}
		f := client.Finding{Severity: "notice", Impact: "it runs, and drover watches it"}
		f.Cause.ID = cause
		if got := p.state(f); !strings.HasPrefix(got, want+":") {
			t.Errorf("%s: %q", cause, got)
		}
	}
}
