package httpapi

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// FuzzParams: whatever a body or a query holds, what comes out is one JSON object or a refusal.
func FuzzParams(f *testing.F) {
	for _, seed := range []string{
		`{"a": 1}`, `a=b&c=[1]&c={`, "\xff=\xfe", `{"a": "\u0000`, ` {"a":`, `%zz`,
		`a={"b":1}&=&&`, `[]`,
	} {
		f.Add([]byte(seed), seed)
	}
	f.Fuzz(func(t *testing.T, body []byte, query string) {
		values, _ := url.ParseQuery(query)
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			params, err := readParams(body, method, values)
			if err != nil {
				if refusalOf(err).kind != badRequest {
					t.Errorf("%q: %v", body, err)
				}
				continue
			}
			var object map[string]json.RawMessage
			if err := json.Unmarshal(params, &object); err != nil || object == nil {
				t.Errorf("%q and %q became %q: %v", body, query, params, err)
			}
			_, _ = paramCredentials(params, values)
		}
	})
}

// FuzzPaths: slashes and whatever stands in front change nothing about where a path leads.
func FuzzPaths(f *testing.F) {
	for _, seed := range []string{
		"/api/c/compapi/v2/gse/operate_proc/", "/procapi/v2/proc/operate",
		"//x//operate_proc", "/esb/api/v2/get_agent_status", "/", "", "/api/v1/x",
	} {
		f.Add(seed)
	}
	p := index(new(server).table())
	f.Fuzz(func(t *testing.T, path string) {
		m := p.resolve(http.MethodPost, path)
		if m.route != nil && len(m.methods) == 0 {
			t.Errorf("%q leads to %s without a method", path, m.route.name)
		}
		if again := p.resolve(http.MethodPost, strings.ReplaceAll(path, "/", "//")+"/"); again.route != m.route ||
			again.family != m.family || again.job != m.job {
			t.Errorf("%q leads elsewhere with more slashes", path)
		}
	})
}
