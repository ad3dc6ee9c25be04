package processes

import (
	"testing"
	"time"

	"drover/client"
	"drover/internal/cli/term"
)

// TestWhyDiffers: a sentence, and who did it when as far as that is known.
func TestWhyDiffers(t *testing.T) {
	at := time.Date(2026, 11, 22, 10, 2, 11, 0, time.UTC)
	when := term.Stamp(&at)
	for want, d := range map[string]client.Difference{
		"it differs":                        {Text: "it differs"},
		"stopped by ben (" + when + ")":     {Text: "stopped by ben", At: &at},
		"it is gone (by ben, " + when + ")": {Text: "it is gone", User: "ben", At: &at},
		"it is gone (apply by ben through shop, " + when + ")": {
			Text: "it is gone", App: "shop", User: "ben", Through: "apply", At: &at,
		},
	} {
		if got := whyDiffers(d); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
