package postgres

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSpelling(t *testing.T) {
	d := dialect()
	for statement, want := range map[string]string{
		"SELECT 1":                                "SELECT 1",
		"a = ? AND b = ?":                         "a = $1 AND b = $2",
		"a = ?2 AND b = ? AND c = ?1 AND d = ?":   "a = $2 AND b = $3 AND c = $1 AND d = $4",
		"a = 'what?' AND b = ? AND c = 'it''s ?'": "a = 'what?' AND b = $1 AND c = 'it''s ?'",
		"FROM t INDEXED BY t_a WHERE a = ?":       "FROM t WHERE a = $1",
		"FROM t NOT INDEXED WHERE a = ?":          "FROM t WHERE a = $1",
		"FROM a CROSS JOIN b ON a.x = b.x":        "FROM a JOIN b ON a.x = b.x",
		"status ->> 'state' = ?":                  "CAST(status AS json) #>> '{state}' = $1",
		"sum(o.status ->> '$.usage.cpu')":         "sum(CAST(o.status AS json) #>> '{usage,cpu}')",
		"FROM texts(?2) j": "FROM " +
			"(SELECT place - 1 AS key, value #>> '{}' AS value FROM jsonb_array_elements(CAST(CAST($2 AS text) AS jsonb)) WITH ORDINALITY AS l (value, place)) j",
		"UPDATE mytexts SET a = 1 WHERE nottexts(?)": "UPDATE mytexts SET a = 1 WHERE nottexts($1)",
	} {
		for range 2 { // the second is remembered
			if d := cmp.Diff(want, d.Spell(statement)); d != "" {
				t.Errorf("%s (-want +got):\n%s", statement, d)
			}
		}
	}
}

func TestTextsAreKept(t *testing.T) {
	last := ""
	for _, s := range []string{
		"", "\x00", "\x00a", "\x01", "\x01\x00", "\x01\x01", "\x01\x02", "\x02", "a", "a\x00b",
		"a\x01", "Ω",
	} {
		stored := escape(s)
		if unescape(stored) != s {
			t.Errorf("%q is stored as %q and read as %q", s, stored, unescape(stored))
		}
		if s != "" && stored <= last {
			t.Errorf("%q is stored as %q, which is not after %q", s, stored, last)
		}
		last = stored
	}
	if got := escape("a\xffb"); got != "a\ufffdb" {
		t.Errorf("what is not UTF-8 is stored as %q", got)
	}
}

func TestPatterns(t *testing.T) {
	pattern := dialect().Pattern
	for given, want := range map[string]string{"a*b?c": "a%b_c", `100%_\*`: `100\%\_\\%`, "[a]": "[a]"} {
		if got := pattern(given); got != want {
			t.Errorf("%s is %s, want %s", given, got, want)
		}
	}
}
