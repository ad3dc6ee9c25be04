package term

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode"

	"github.com/goccy/go-yaml"
)

// TestNothingMovesTheCursor: whatever agents and callers call things, no form of output holds a control character, and
// JSON says the same.
func TestNothingMovesTheCursor(t *testing.T) {
	value := map[string]string{"text": "a\x1b[2J\u009b2J\x7f\r\b\f\x00\\u001b\\ \"end\"\n\tnext \u00fc \u8fdb"}
	for _, form := range []string{AsJSON, AsYAML} {
		var b strings.Builder
		if err := PrintValue(&b, form, value); err != nil {
			t.Fatal(err)
		}
		if i := strings.IndexFunc(b.String(), func(r rune) bool {
			return unicode.IsControl(r) && r != '\n' &&
				r != '\t'
		}); i >= 0 {
			t.Errorf("%s holds %q: %q", form, b.String()[i:i+1], b.String())
		}
		var got map[string]string
		var err error
		want := value["text"]
		if form == AsJSON {
			err = json.Unmarshal([]byte(b.String()), &got)
		} else {
			err = yaml.Unmarshal([]byte(b.String()), &got)
			want = "a\\u001b[2J\\u009b2J\\u007f\\r\\b\\f\\u0000\\u001b\\ \"end\"\n\tnext \u00fc \u8fdb"
		}
		if err != nil || got["text"] != want {
			t.Errorf("%s: got %q, %v, want %q", form, got["text"], err, want)
		}
	}
}
