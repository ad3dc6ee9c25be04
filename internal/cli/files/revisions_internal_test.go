package files

import (
	"testing"
	"time"

	v1 "drover/api/v1"
	"drover/internal/cli/term"
)

// TestWhyDiffers: a sentence, and who did it when as far as that is known.
func TestWhyDiffers(t *testing.T) {
	at := time.Date(2026, 11, 22, 10, 2, 11, 0, time.UTC)
	when := term.Stamp(&at)
	for want, d := range map[string]v1.Difference{
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

// TestEqualDifferencesAreOneRow: what is equal on many hosts is one row with one command, and what differs is not.
func TestEqualDifferencesAreOneRow(t *testing.T) {
	early, late := time.Unix(1, 0), time.Unix(2, 0)
	of := func(host, field string, at *time.Time) v1.Difference {
		return v1.Difference{
			Namespace: "shop", Name: "web", Host: host, Kind: "changed", Field: field, Want: 1.0, Have: 2.0, Text: "it differs",
			At: at, Mend: "drover register shop/web --hosts " + term.ShellWord(host) + " --revision 5 && drover start shop/web --hosts " +
				term.ShellWord(host),
		}
	}
	got := foldDifferences([]v1.Difference{
		of("web-1", "limits.open_files", &early), of("web-1", "user", &early), of("web-2", "limits.open_files", &late),
		of("web 3", "limits.open_files", &early), of("web-4", "limits.open_files", nil),
	})
	if len(got) != 2 || got[0].Host != "web-1,web-2,web 3,… (4 hosts)" || !got[0].At.Equal(late) || got[1].Host != "web-1" ||
		got[1].Mend != "drover register shop/web --hosts web-1 --revision 5 && drover start shop/web --hosts web-1" ||
		got[0].Mend != "drover register shop/web --hosts 'web-1,web-2,web 3,web-4' --revision 5 && "+
			"drover start shop/web --hosts 'web-1,web-2,web 3,web-4'" {
		t.Errorf("the rows are %+v", got)
	}
}
