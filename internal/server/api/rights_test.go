package api_test

import (
	"net/url"
	"testing"

	"drover/internal/server/access"
	"drover/internal/server/store"
)

// TestCheckRight says yes or no, and by which rights.
func TestCheckRight(t *testing.T) {
	r := labelled(t)
	r.app("plain", "restart on a at label:role=web", "read on a")
	grant := func(text string) access.Grant {
		t.Helper()
		g, err := access.ParseGrant(text)
		r.must(err)
		return g
	}
	for name, texts := range map[string][]string{
		"ann": {
			"operator on shop* at label:role=web", "stop on shop max-targets 2", "start on shop until 2020-01-01T00:00:00Z",
			"label-agents on * at area:0",
		},
		"ben": {"* on *"}, "eve": nil,
	} {
		u := store.User{Name: name, Admin: name == "eve", Disabled: name == "ben"}
		for _, text := range texts {
			u.Grants = append(u.Grants, grant(text))
		}
		r.must(r.store.CreateUser(t.Context(), u))
	}
	for _, tt := range []struct {
		query   string
		allowed bool
		grants  string // the first of those that give it, or else of those that fall short
	}{
		{"user=ann&operation=restart&process=shop/api&host=web-1", true, "operator on shop* at label:role=web"},
		{"user=ann&operation=restart&process=shop/api&host=0:10.0.0.2", false, "operator on shop* at label:role=web"},
		{"user=ann&operation=restart&process=shop/api", false, "operator on shop* at label:role=web"},
		{"user=ann&operation=restart&process=pay/api&host=web-1", false, ""},
		{"user=ann&operation=register&process=shop/api", false, ""},
		{"user=ann&operation=stop&process=shop/api", true, "stop on shop max-targets 2"},
		{"user=ann&operation=stop&process=shop/api&targets=3&host=0:10.0.0.2", false, "operator on shop* at label:role=web"},
		{"user=ann&operation=start&process=shop/api", false, "operator on shop* at label:role=web"}, // the other has ended
		{"user=ann&operation=label-agents&host=web-1", true, "label-agents on * at area:0"},
		{"user=ann&operation=label-agents", false, "label-agents on * at area:0"},
		{"user=ben&operation=restart&process=shop/api", false, "* on *"},
		{"user=eve&operation=register&process=shop/api", true, ""},
	} {
		v := r.want(200, r.call("admin", "GET", "/rights/check?"+tt.query, nil)).body
		list := v["grants"].([]any)
		if !tt.allowed && len(list) == 0 {
			list = v["short"].([]any)
		}
		got := ""
		if len(list) > 0 {
			got = textOf(list[0].(map[string]any))
		}
		if v["allowed"] != tt.allowed || got != textOfRight(t, tt.grants) {
			t.Errorf("%s: %v", tt.query, v)
		}
	}

	own := r.want(200, r.call("plain", "GET", "/rights/check?operation=restart&process=a/x&host=web-1", nil)).body
	if own["allowed"] != true || own["app"] != "plain" || own["user"] != nil {
		t.Errorf("an app about itself: %v", own)
	}
	// A name without a host reveals nothing to others.
	hidden := r.want(200, r.call("plain", "GET", "/rights/check?operation=restart&process=a/x&host=nobody", nil)).body
	same(t, "an unknown host", any(false), hidden["allowed"])
	r.refused(r.call("admin", "GET", "/rights/check?operation=restart&process=a/x&host=nobody", nil), 404, "")
	r.refused(r.call("admin", "GET", "/rights/check?user=nobody&operation=restart&process=a/x", nil), 404, "")
	r.refused(r.call("plain", "GET", "/rights/check?user=ann&operation=restart&process=a/x", nil), 403, "")
	same(t, "all faults at once", []string{"targets", "operation", "process"},
		r.want(422, r.call("admin", "GET", "/rights/check?operation=fly&process=x&targets=0", nil)).faults())
	r.refused(r.call("admin", "GET", "/rights/check?operation=label-agents&process=a/x", nil), 422, "process")
}

// textOf is a right of an answer by the parts that the test distinguishes.
func textOf(g map[string]any) string {
	first := func(field string) string {
		if list, ok := g[field].([]any); ok {
			return list[0].(string)
		}
		return ""
	}
	return url.Values{"op": {first("operations")}, "on": {first("namespaces")}, "at": {first("labels")}}.Encode()
}

func textOfRight(t *testing.T, text string) string {
	t.Helper()
	if text == "" {
		return ""
	}
	g, err := access.ParseGrant(text)
	if err != nil {
		t.Fatal(err)
	}
	label := append(g.Labels, "")[0]
	return url.Values{"op": {g.Operations[0]}, "on": {g.Namespaces[0]}, "at": {label}}.Encode()
}
