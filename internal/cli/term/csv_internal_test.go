package term

import (
	"strings"
	"testing"
)

// TestCSVHoldsNoFormula: what a spreadsheet would run is a text, and numbers stay numbers.
func TestCSVHoldsNoFormula(t *testing.T) {
	column := Column[string]{Head: "NAME", Cell: func(s string) string { return s }}
	for cell, want := range map[string]string{
		`=HYPERLINK("x")`: `"'=HYPERLINK(""x"")"`, "+1+cmd": "'+1+cmd", "-2+3": "'-2+3", "@SUM(A1)": "'@SUM(A1)",
		"-1": "-1", "+0.5": "+0.5", "web": "web", "": "",
	} {
		var out strings.Builder
		if err := printCSV(&out, Output{NoHeaders: true}, []string{cell, "x"}, []Column[string]{column}); err != nil {
			t.Fatal(err)
		}
		if got, _, _ := strings.Cut(out.String(), "\n"); got != want && got != `"`+want+`"` {
			t.Errorf("%q: %q, want %q", cell, got, want)
		}
	}
}
