package access_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"drover/internal/server/access"
)

func TestGrantsAsText(t *testing.T) {
	for text, want := range map[string]access.Grant{
		"* on *": {Operations: []string{access.All}, Namespaces: []string{access.All}},
		"start,read on GSEKIT_BIZ_*,biz:7": {
			Operations: []string{"start", "read"}, Namespaces: []string{"GSEKIT_BIZ_*"}, Businesses: []int64{7},
		},
		"operate on job:biz:7 at area:0,0:10.2.*": {
			Operations: []string{"operate"}, Namespaces: []string{"job:biz:7"}, Areas: []int{0},
			Hosts: []string{"0:10.2.*"},
		},
		"operate on shop at label:role=web,label:example.com/zone=b,web-*": {
			Operations: []string{"operate"}, Namespaces: []string{"shop"}, Hosts: []string{"web-*"},
			Labels: []string{"role=web", "example.com/zone=b"},
		},
		"query on on at at": {Operations: []string{"query"}, Namespaces: []string{"on"}, Hosts: []string{"at"}},
	} {
		got, err := access.ParseGrant("  " + strings.ReplaceAll(text, " ", "  "))
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%q (-want +got):\n%s", text, d)
		}
		again, err := access.ParseGrant(got.String())
		if err != nil || !cmp.Equal(got, again) {
			t.Errorf("%q is written as %q, which is read as %+v (%v)", text, got, again, err)
		}
	}
}

func TestBadGrants(t *testing.T) {
	long := strings.Repeat("x", 256)
	for text, reason := range map[string]string{
		"":                                     "expected",
		"start":                                "expected",
		"start on":                             "expected",
		"start in ns":                          "expected",
		"start on ns at":                       "expected",
		"start on ns in h":                     "expected",
		"start on ns at h more":                "expected",
		"fly on ns":                            `operations[0] is "fly"`,
		"start, on ns":                         `operations[1] is ""`,
		"start on ,":                           "namespaces[0] is empty",
		"start on biz:x":                       "is not a number",
		"start on biz:0":                       "businesses[0] is 0",
		"start on ns at area:-1":               "areas[0] is -1",
		"start on ns at area:":                 "is not a number",
		"start on ns at ,":                     "hosts[0] is empty",
		"start on ns at label:role":            "expected KEY=VALUE",
		"start on ns at label:role=":           "expected KEY=VALUE",
		"start on ns at label:role!=web":       "is not the key of a label",
		"start on ns at label:role=w*":         `the value "w*"`,
		"start on ns at label:":                "labels[0]",
		"start on ns at label:os=debian":       "facts grant no rights",
		"start on ns at label:fact.rack=4":     "facts grant no rights",
		"start on ns at label:agent_version=1": "facts grant no rights",
		"start on " + long:                     "256 bytes",
		"start on n\x00s":                      "control character",
		"start on ns at \xff":                  "not valid UTF-8",
		"start on " + strings.Repeat("a,", 100) + "a": "101 parts",
	} {
		if g, err := access.ParseGrant(text); err == nil || !strings.Contains(err.Error(), reason) {
			t.Errorf("%.40q: %+v, %v, want an error about %s", text, g, err, reason)
		}
	}
	for name, g := range map[string]access.Grant{
		"no operation": {Namespaces: []string{"*"}},
		"no namespace": {Operations: []string{"start"}},
		"many labels":  {Operations: []string{"start"}, Namespaces: []string{"*"}, Labels: slices.Repeat([]string{"a=b"}, 101)},
		"many areas":   {Operations: []string{"start"}, Namespaces: []string{"*"}, Areas: make([]int, 101)},
	} {
		if g.Validate() == nil {
			t.Errorf("%s: %+v was taken", name, g)
		}
	}
}

// FuzzGrants: whatever text is taken is a valid grant, and means the same when it is written and read again.
func FuzzGrants(f *testing.F) {
	for _, text := range []string{
		"* on *", "start,read on GSEKIT_BIZ_*,biz:7 at area:0,0:10.2.*",
		"start on biz: at area:", "query on on at at", "read on * at label:role=web",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		g, err := access.ParseGrant(text)
		if err != nil {
			return
		}
		if err := g.Validate(); err != nil {
			t.Fatalf("%q was taken and is not valid: %v", text, err)
		}
		again, err := access.ParseGrant(g.String())
		if err != nil {
			t.Fatalf("%q is written as %q, which is refused: %v", text, g, err)
		}
		p, q := access.Principal{Grants: []access.Grant{g}}, access.Principal{Grants: []access.Grant{again}}
		h := access.Host{Area: 0, IP: "10.2.0.1", ID: text}
		if p.On("start", text).Covers(h) != q.On("start", text).Covers(h) ||
			!slices.Equal(g.Namespaces, again.Namespaces) {
			t.Fatalf("%q is written as %q, which means something else", text, g)
		}
	})
}
