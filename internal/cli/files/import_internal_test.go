package files

import (
	"strings"
	"testing"

	v1 "drover/api/v1"
	"drover/internal/importer"
)

// TestReleaseNamesSections: each section of supervisord is named once, also in its group.
func TestReleaseNamesSections(t *testing.T) {
	text := releaseSupervisord(t.Context(), []string{t.TempDir() + "/none.conf"}, "imported", []importer.Process{
		{Origins: []string{"worker:worker_00"}, Program: "worker"},
		{Origins: []string{"g:ev"}, Program: "ev", Group: "g"},
		{Origins: []string{"worker:worker_01"}, Program: "worker"},
	})
	const want = `
  remove [program:worker] from the configuration (process worker:worker_00, worker:worker_01)
  remove [program:ev] from the configuration, and ev from programs of [group:g] (process g:ev)
Then`
	if !strings.Contains(text, want) {
		t.Errorf("%s\nwant%s", text, want)
	}
}

// TestThisHost: the address of this machine decides, then its name, then the person.
func TestThisHost(t *testing.T) {
	agent := func(id, ip, name string) v1.JoinedHost {
		return v1.JoinedHost{Host: v1.Host{ID: id, IP: ip}, Name: name}
	}
	a, b, c := agent("a", "10.0.0.1", "box"), agent("b", "10.0.0.2", "box"), agent("c", "10.0.0.3", "other")
	for name, tt := range map[string]struct {
		agents []v1.JoinedHost
		hosts  []string
		want   string
	}{
		"by address":       {[]v1.JoinedHost{agent("x", "192.0.2.7", "far"), a, c}, nil, "x"},
		"behind NAT":       {[]v1.JoinedHost{a, c}, nil, "a"},
		"two containers":   {[]v1.JoinedHost{a, b, c}, []string{"0:10.0.0.2"}, "b"},
		"by id":            {[]v1.JoinedHost{a, b, c}, []string{"a"}, "a"},
		"nobody says":      {[]v1.JoinedHost{a, b, c}, nil, "2 hosts have the name or an address of this host"},
		"another is meant": {[]v1.JoinedHost{a, b, c}, []string{"c"}, "2 hosts have the name or an address of this host"},
		"none":             {[]v1.JoinedHost{c}, []string{"c"}, "none of the 1 hosts"},
	} {
		got, err := hostWith(tt.agents, []string{"127.0.0.1", "192.0.2.7"}, "box", tt.hosts)
		if err == nil && got.ID != tt.want || err != nil && (len(tt.want) == 1 || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s: %q, %v, want %s", name, got.ID, err, tt.want)
		}
	}
}
