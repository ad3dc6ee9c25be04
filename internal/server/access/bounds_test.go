package access_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"drover/internal/server/access"
)

func grants(t *testing.T, texts ...string) (list []access.Grant) {
	t.Helper()
	for _, text := range texts {
		g, err := access.ParseGrant(text)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, g)
	}
	return list
}

func asText(list []access.Grant) string {
	texts := make([]string, len(list))
	for i, g := range list {
		texts[i] = g.String()
	}
	return strings.Join(texts, "; ")
}

const (
	early = "start on a until 2026-11-20T18:00:00Z"
	late  = "start on a until 2026-11-20T20:00:00Z"
)

// TestGrantEnds: a grant gives nothing from its end on.
func TestGrantEnds(t *testing.T) {
	list := grants(t, early, late, "stop on a")
	for at, want := range map[string]string{
		"2026-11-20T17:59:59Z": early + "; " + late + "; stop on a",
		"2026-11-20T18:00:00Z": late + "; stop on a",
		"2026-11-21T00:00:00Z": "stop on a",
	} {
		now, err := time.Parse(time.RFC3339, at)
		if err != nil {
			t.Fatal(err)
		}
		if got := asText(access.InForce(list, now)); got != want {
			t.Errorf("at %s: %s", at, got)
		}
	}
}

func TestAddingAndRemovingGrants(t *testing.T) {
	for _, tt := range []struct {
		have  []string
		added string
		want  string
	}{
		{nil, early, early},
		{[]string{early}, late, late},
		{[]string{late}, early, late},
		{[]string{early}, "start on a", "start on a"},
		{[]string{"start on a"}, early, "start on a"},
		{[]string{"start on b"}, early, "start on b; " + early},
		{[]string{"start on a max-targets 5"}, early, "start on a max-targets 5; " + early}, // for more, or for longer
		{[]string{"start on a max-targets 5"}, "start on a max-targets 9", "start on a max-targets 9"},
		{[]string{"start on a max-targets 5"}, "start on a max-targets 2", "start on a max-targets 5"},
		{[]string{"start on a max-targets 5", early}, "start on a", "start on a"},
	} {
		if got := asText(access.With(grants(t, tt.have...), grants(t, tt.added)[0])); got != tt.want {
			t.Errorf("%q with %q: %q", tt.have, tt.added, got)
		}
	}
	have := []string{early, "start on a max-targets 5", "stop on a"}
	for text, want := range map[string]string{
		early:                           "start on a max-targets 5; stop on a",
		"start  on a max-targets 5":     early + "; stop on a",
		"start on a":                    "stop on a",
		"stop on a":                     early + "; start on a max-targets 5",
		"start on b":                    asText(grants(t, have...)),
		"start on a max-targets 6":      asText(grants(t, have...)),
		"stop on a until " + "tomorrow": asText(grants(t, have...)),
	} {
		list := grants(t, have...)
		kept, removed := access.Without(list, text)
		if got := asText(kept); got != want || removed != (len(kept) < len(have)) {
			t.Errorf("without %q: %q, %v", text, got, removed)
		}
	}
	if got, _ := access.Without(grants(t, "start on a", early), "start on a"); asText(got) != early {
		t.Errorf("the exact text removes more: %q", asText(got))
	}
}

// TestLimitOfTargets: a grant does not count in a call with more targets, unless the call only reads. Another grant may
// give the call, and the missing right names the largest limit of those that would give a smaller call.
func TestLimitOfTargets(t *testing.T) {
	here, there := access.Host{IP: "10.0.0.1"}, access.Host{Area: 3, IP: "10.0.0.3"}
	narrow := []string{"operator on a max-targets 2", "start on a at area:0 max-targets 3"}
	for _, tt := range []struct {
		grants  []string
		op      access.Operation
		targets int
		host    access.Host
		missing string
	}{
		{narrow, "stop", 2, here, ""},
		{narrow, "stop", 3, here, "stop a/x: the call has 3 targets, and the right allows at most 2 in one call"},
		{narrow, "query", 3000, there, ""},
		{narrow, "start", 3, here, ""},
		{narrow, "start", 3, there, "start a/x: the call has 3 targets, and the right allows at most 2 in one call"},
		{narrow, "start", 4, here, "start a/x: the call has 4 targets, and the right allows at most 3 in one call"},
		{narrow, "register", 1, here, "register a/x"},
		{[]string{narrow[0], "stop on a at area:0"}, "stop", 9, here, ""},
		{[]string{"stop on a at area:0 max-targets 2"}, "stop", 9, there, "stop a/x"},
	} {
		p := access.Principal{Grants: grants(t, tt.grants...), Targets: tt.targets}
		var missing access.Missing
		missing.Check(p.On(tt.op, "a"), "a/x", tt.host)
		if got := missing.What(); missing.Any() && got != tt.missing || missing.Any() != (tt.missing != "") {
			t.Errorf("%q, %s of %d on %s: missing %q", tt.grants, tt.op, tt.targets, tt.host.Address(), got)
		}
	}
	p := access.Principal{Grants: grants(t, narrow...)}
	if p.Exceeds(2) || !p.Exceeds(3) {
		t.Error("a call of 2 targets exceeds no limit, one of 3 does")
	}
	if p.Admin = true; p.Exceeds(3) {
		t.Error("an administrator has a limit")
	}
}

// TestAuditor: an auditor reads everything and all audit records, and changes nothing. Nobody else but an administrator
// reads all audit records.
func TestAuditor(t *testing.T) {
	p := access.Principal{Grants: grants(t, "auditor on *")}
	if !p.ReadsAudit() {
		t.Error("an auditor does not read the audit records")
	}
	for _, op := range access.Operations() {
		reads := slices.Contains(access.Members(access.Viewer), op)
		if p.On(op, "shop").Everywhere() != reads || p.OnHosts(op).Everywhere() != reads {
			t.Errorf("an auditor and %s", op)
		}
	}
	others := access.Principal{Grants: grants(t, "* on *", "maintainer on *")}
	others.Grants = append(others.Grants, access.Grant{
		Operations: []string{access.Auditor}, Namespaces: []string{"*"}, Areas: []int{3}, // an invalid grant
	})
	if others.ReadsAudit() {
		t.Error("somebody who is not an auditor reads all audit records")
	}
	if admin := (&access.Principal{Admin: true}); !admin.ReadsAudit() {
		t.Error("an administrator does not read all audit records")
	}
}

// TestSets: an app decides what runs with the right to start. A person also needs the right to update, on the same host.
func TestSets(t *testing.T) {
	here, there := access.Host{Area: 0, IP: "10.0.0.1"}, access.Host{Area: 0, IP: "10.0.0.2"}
	for _, tt := range []struct {
		app    string
		grants []string
		// missing is the missing right on here.
		missing           string
		there, everywhere bool
	}{
		{"shop", []string{"start on a"}, "", true, true},
		{"shop", []string{"update on a"}, "start a/x", false, false},
		{access.PersonApp("bob"), []string{"operator on a"}, "update a/x", false, false},
		{access.PersonApp("bob"), []string{"maintainer on a"}, "", true, true},
		{access.PersonApp("bob"), []string{"operator on a", "update on a at 0:10.0.0.2"}, "update a/x on 0:10.0.0.1", true, false},
		{access.PersonApp("bob"), []string{"start on a at 0:10.0.0.2", "update on a"}, "start a/x on 0:10.0.0.1", true, false},
		{access.PersonApp("bob"), []string{"start on a", "update on a max-targets 1"}, "update a/x: the call has 2 targets, " +
			"and the right allows at most 1 in one call", false, false},
	} {
		p := access.Principal{App: tt.app, Grants: grants(t, tt.grants...), Targets: 2}
		reach := p.Sets("a")
		var missing access.Missing
		missing.Check(reach, "a/x", here)
		if got := missing.What(); missing.Any() && got != tt.missing || missing.Any() != (tt.missing != "") {
			t.Errorf("%s with %q: missing %q, want %q", tt.app, tt.grants, got, tt.missing)
		}
		if reach.Covers(here) == missing.Any() || reach.Covers(there) != tt.there || reach.Everywhere() != tt.everywhere {
			t.Errorf("%s with %q covers %v and %v, everywhere %v", tt.app, tt.grants, reach.Covers(here), reach.Covers(there),
				reach.Everywhere())
		}
	}
}
