package spelling_test

import (
	"slices"
	"testing"

	"drover/internal/spelling"
)

func TestNearest(t *testing.T) {
	words := []string{"web/nginx", "web/nginx2", "web/redis", "db/mysql", "Web/Nginx", "a/nginx-long-name"}
	for word, want := range map[string][]string{
		"web/ngnix":  {"web/nginx", "Web/Nginx"},
		"nginx":      {"web/nginx", "web/nginx2", "Web/Nginx"},
		"db/mysq":    {"db/mysql"},
		"else/where": nil,
	} {
		if got := spelling.Nearest(word, words); !slices.Equal(got, want) {
			t.Errorf("%q is near %q, want %q", word, got, want)
		}
	}
}
