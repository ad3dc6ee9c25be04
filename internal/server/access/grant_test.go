package access_test

import (
	"slices"
	"strings"
	"testing"
	"time"

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
		"operate on shop at web-*,label:role=web,label:example.com/zone=b": {
			Operations: []string{"operate"}, Namespaces: []string{"shop"}, Hosts: []string{"web-*"},
			Labels: []string{"role=web", "example.com/zone=b"},
		},
		"operate on shop at web-*,area:3,label:role in (web, db),zone!=b,!spare,label:tier notin (1,2),role=db": {
			Operations: []string{"operate"}, Namespaces: []string{"shop"}, Areas: []int{3}, Hosts: []string{"web-*"},
			Labels: []string{"role in (web,db),zone!=b,!spare", "tier notin (1,2),role=db"},
		},
		"operator on shop* until 2026-11-20T18:00:00Z": {
			Operations: []string{"operator"}, Namespaces: []string{"shop*"},
			Until: time.Date(2026, 11, 20, 18, 0, 0, 0, time.UTC),
		},
		"start on a at label:role in (web,db) until 2026-11-20T19:00:00+01:00 max-targets 200": {
			Operations: []string{"start"}, Namespaces: []string{"a"}, Labels: []string{"role in (web,db)"},
			Until: time.Date(2026, 11, 20, 18, 0, 0, 0, time.UTC), MaxTargets: 200,
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
		"":                                "expected",
		"start":                           "expected",
		"start on":                        "expected",
		"start in ns":                     "expected",
		"start on ns at":                  "expected",
		"start on ns in h":                "expected",
		"start on ns at h more":           "expected",
		"auditor on shop":                 `expected "auditor on *"`,
		"auditor on * at area:3":          `expected "auditor on *"`,
		"read-audit on *":                 `no right is called "read-audit"`,
		"start on ns until noon":          `until is "noon"`,
		"start on ns max-targets many":    `max-targets is "many"`,
		"start on ns max-targets 0":       `max-targets is "0"`,
		"start on ns max-targets 1000001": "max_targets is 1000001",
		"start on ns max-targets 1 max-targets 2": "expected",
		"fly on ns":                                   `no right is called "fly": expected viewer, operator, `,
		"operater on ns":                              `no right is called "operater", did you mean operate or operator?`,
		"start, on ns":                                `no right is called ""`,
		"start on ,":                                  "namespaces[0] is empty",
		"start on biz:x":                              "is not a number",
		"start on biz:0":                              "businesses[0] is 0",
		"start on ns at area:-1":                      "areas[0] is -1",
		"start on ns at area:":                        "is not a number",
		"start on ns at ,":                            "hosts[0] is empty",
		"start on ns at label:role":                   "role has no value: expected KEY=VALUE",
		"start on ns at label:role=":                  "expected a value of role",
		"start on ns at label:role!=web":              "a host without any label satisfies every term",
		"start on ns at label:!role,a notin (b)":      "a host without any label satisfies every term",
		"start on ns at label:role=web,web-7":         `names of hosts stand before "label:"`,
		"start on ns at label:role=web,web-*":         "web-*",
		"start on ns at label:role=web,os!=x":         "facts grant no rights",
		"start on ns at zone!=b":                      "needs label: before its first term",
		"start on ns at role in (web,db)":             "needs label: before its first term",
		"start on ns at web-*,role=web":               "hosts[1]",
		"start on ns at label:role=w*":                `the value "w*"`,
		"start on ns at label:":                       "labels[0]",
		"start on ns at label:os=debian":              "facts grant no rights",
		"start on ns at label:fact.rack=4":            "facts grant no rights",
		"start on ns at label:agent_version=1":        "facts grant no rights",
		"start on " + long:                            "256 bytes",
		"start on n\x00s":                             "control character",
		"start on ns at \xff":                         "not valid UTF-8",
		"start on " + strings.Repeat("a,", 100) + "a": "101 parts",
	} {
		if g, err := access.ParseGrant(text); err == nil || !strings.Contains(err.Error(), reason) {
			t.Errorf("%.40q: %+v, %v, want an error about %s", text, g, err, reason)
		}
	}
	for name, g := range map[string]access.Grant{
		"no operation":                {Namespaces: []string{"*"}},
		"no namespace":                {Operations: []string{"start"}},
		"many labels":                 {Operations: []string{"start"}, Namespaces: []string{"*"}, Labels: slices.Repeat([]string{"a=b"}, 101)},
		"a condition among the hosts": {Operations: []string{"start"}, Namespaces: []string{"*"}, Hosts: []string{"zone!=b"}},
		"many areas":                  {Operations: []string{"start"}, Namespaces: []string{"*"}, Areas: make([]int, 101)},
	} {
		if g.Validate() == nil {
			t.Errorf("%s: %+v was taken", name, g)
		}
	}
}

// TestTextOfAGrant: a stored grant that is not valid any more has a text, by which a person can revoke it.
func TestTextOfAGrant(t *testing.T) {
	g := access.Grant{
		Operations: []string{"stop"}, Namespaces: []string{"*"}, Hosts: []string{"zone!=b"}, Labels: []string{"role in (a,b)"},
	}
	for text, want := range map[string]bool{
		"stop on *  at zone!=b,label:role in (a,b)": true,
		"stop on * at label:role in (a,b),zone!=b":  false,
		"stop on *": false,
	} {
		if g.Is(text) != want {
			t.Errorf("%q is %q: %v", text, g, !want)
		}
	}
	g.Hosts = nil
	if !g.Is("stop on * at label: role in ( a, b )") {
		t.Errorf("the text of %q depends on its blanks", g)
	}
}

// FuzzGrants: whatever text is taken is a valid grant, and means the same when it is written and read again.
func FuzzGrants(f *testing.F) {
	for _, text := range []string{
		"* on *", "start,read on GSEKIT_BIZ_*,biz:7 at area:0,0:10.2.*",
		"start on biz: at area:", "query on on at at", "read on * at label:role=web",
		"read on * at a*,label:role in (web, db) ,zone!=b,area:3",
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
