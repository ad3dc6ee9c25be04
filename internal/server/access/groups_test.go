package access_test

import (
	"strings"
	"testing"

	"drover/internal/server/access"
)

// TestGroups: a person has the rights of all groups that the configuration names, and no others.
func TestGroups(t *testing.T) {
	rights := func(texts ...string) access.Rights {
		t.Helper()
		r, err := access.ParseRights(texts)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	groups := access.GroupRights{
		"shop": rights("operator on shop*", "viewer on *"), "boss": rights("admin"), "guests": rights(),
	}
	for _, tt := range []struct {
		names []string
		admin bool
		text  string
		known bool
	}{
		{nil, false, "", false},
		{[]string{"strangers", ""}, false, "", false},
		{[]string{"guests"}, false, "", true},
		{[]string{"strangers", "shop"}, false, "operator on shop*; viewer on *", true},
		{[]string{"shop", "boss"}, true, "operator on shop*; viewer on *", true},
		{[]string{"Boss"}, false, "", false},
	} {
		r := groups.Of(tt.names)
		var texts []string
		for _, g := range r.Grants {
			texts = append(texts, g.String())
		}
		if text := strings.Join(texts, "; "); text != tt.text || r.Admin != tt.admin ||
			groups.Knows(tt.names) != tt.known {
			t.Errorf("%q have %q, admin %v, known %v", tt.names, text, r.Admin, groups.Knows(tt.names))
		}
	}
	if r := access.GroupRights(nil).Of([]string{"boss"}); r.Admin || r.Grants != nil {
		t.Errorf("no groups give %+v", r)
	}
	for _, bad := range []string{"", "Admin", "admin on *", "operator"} {
		if _, err := access.ParseRights([]string{"viewer on *", bad}); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}
