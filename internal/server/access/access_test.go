package access_test

import (
	"math"
	"slices"
	"strings"
	"testing"

	"drover/internal/process"
	"drover/internal/server/access"
)

func parse(t *testing.T, texts ...string) access.Principal {
	t.Helper()
	p := access.Principal{App: "app"}
	for _, text := range texts {
		g, err := access.ParseGrant(text)
		if err != nil {
			t.Fatal(err)
		}
		p.Grants = append(p.Grants, g)
	}
	return p
}

func TestRights(t *testing.T) {
	web := "web"
	host := access.Host{
		Area: 3, IP: "10.0.0.7", ID: "web-7", Alias: "0200", Labels: access.Labels{
			Set:    map[string]*string{"role": &web, "gone": nil},
			Joined: map[string]string{"role": "db", "gone": "x", "zone": "a", "empty": ""},
		},
	}
	nobody := access.Host{Area: access.NoArea, ID: "stranger"}
	for _, tt := range []struct {
		grants    string // parted by ";"
		op        access.Operation
		namespace string
		host      access.Host
		want      bool
	}{
		{"* on *", "start", "ns", host, true},
		{"* on *", "start", "ns", nobody, true},
		{"start on *", "start", "ns", host, true},
		{"start on *", "stop", "ns", host, false},
		{"operate on *", "kill", "ns", host, true},
		{"operate on *", "query", "ns", host, false},
		{"operate on *", "register", "ns", host, false},
		{"setup on *", "unregister", "ns", host, true},
		{"setup on *", access.SetGroup, "ns", host, true},
		{"read on *", "query", "ns", host, true},
		{"read on *", "start", "ns", host, false},
		{"start on ns", "start", "ns", host, true},
		{"start on ns", "start", "ns2", host, false},
		{"start on ns", "start", "NS", host, false},
		{"start on ns*", "start", "ns2", host, true},
		{"start on biz:7", "start", "job:biz:7", host, true},
		{"start on biz:7", "start", "GSEKIT_BIZ_7", host, true},
		{"start on biz:7", "start", "GSEKIT_BIZ_77", host, false},
		{"start on biz:7", "start", "biz:7", host, false},
		{"start on * at area:3", "start", "ns", host, true},
		{"start on * at area:0", "start", "ns", host, false},
		{"start on * at area:0", "start", "ns", nobody, false},
		{"start on * at 3:10.0.0.*", "start", "ns", host, true},
		{"start on * at *:10.0.0.7", "start", "ns", host, true},
		{"start on * at 10.0.0.7", "start", "ns", host, false}, // an address without its area names no host
		{"start on * at 0:10.0.0.*", "start", "ns", host, false},
		{"start on * at web-*", "start", "ns", host, true},
		{"start on * at 0200", "start", "ns", host, true},
		{"start on * at stranger", "start", "ns", nobody, true},
		{"start on * at strange?", "start", "ns", nobody, true},
		{"start on * at *", "start", "ns", nobody, true},
		{"start on * at area:0,web-7", "start", "ns", host, true},
		{"start on * at label:role=web", "start", "ns", host, true},
		{"start on * at label:role=db", "start", "ns", host, false}, // a person has said otherwise
		{"start on * at label:zone=a", "start", "ns", host, true},
		{"start on * at label:gone=x", "start", "ns", host, false},
		{"start on * at label:none=x", "start", "ns", host, false},
		{"start on * at web-7,label:zone=b", "start", "ns", host, true},
		{"start on * at label:role=web,zone!=b", "start", "ns", host, true},
		{"start on * at label:role=web,zone!=a", "start", "ns", host, false},
		{"start on * at label:role=web,zone!=b", "start", "ns", nobody, false},
		{"start on * at label:role in (db,web),!gone", "start", "ns", host, true},
		{"start on * at label:role=web,zone notin (a,b)", "start", "ns", host, false},
		{"start on * at label:role=web,zone=b,label:zone=a", "start", "ns", host, true},
		{"start on * at label:zone=b,area:0", "start", "ns", host, false},
		{"start on * at label:role=web", "start", "ns", nobody, false},
		// One grant must give all three: parts of two do not add up.
		{"start on a at *; stop on b at *", "start", "b", host, false},
		{"start on a at web-7; start on b at web-8", "start", "b", host, false},
		{"start on a at web-7; start on b at web-8", "start", "a", host, true},
		{"", "query", "ns", host, false},
	} {
		var grants []string
		for g := range strings.SplitSeq(tt.grants, ";") {
			if g != "" {
				grants = append(grants, g)
			}
		}
		p := parse(t, grants...)
		if got := p.On(tt.op, tt.namespace).Covers(tt.host); got != tt.want {
			t.Errorf("%q: %s in %s on %+v is %v, want %v", tt.grants, tt.op, tt.namespace, tt.host, got, tt.want)
		}
	}
}

func TestReach(t *testing.T) {
	p := parse(t, "start on a", "start on b at area:1", "read on c at *")
	for namespace, want := range map[string][2]bool{"a": {true, false}, "b": {false, false}, "c": {false, true}} {
		r := p.On("start", namespace)
		if got := [2]bool{r.Everywhere(), r.Nowhere()}; got != want {
			t.Errorf("start in %s is everywhere, nowhere: %v, want %v", namespace, got, want)
		}
	}
	if !p.On("query", "c").Everywhere() {
		t.Error("a host pattern of * is not everywhere")
	}
	admin := access.Principal{Admin: true}
	if !admin.On("start", "a").Everywhere() || !admin.OnHosts(access.RenameAgents).Everywhere() {
		t.Error("an administrator may not do everything")
	}
	var nobody access.Principal
	if !nobody.On("query", "a").Nowhere() || !nobody.OnHosts(access.ReadAgents).Nowhere() {
		t.Error("the zero principal may do something")
	}
	if who := access.LocalAdmin(1000); !who.Admin || who.App != "" || who.User != "uid:1000" {
		t.Errorf("the operator of the machine is %+v", who)
	}
}

// TestNamespaces: every namespace in which something may be done is of one of the patterns.
func TestNamespaces(t *testing.T) {
	for _, c := range []struct {
		grants []string
		want   []string
	}{
		{
			[]string{"read on a*,b", "start on c", "query on biz:7 at area:1", "* on d"},
			[]string{"a*", "b", "job:biz:7", "GSEKIT_BIZ_7", "d"},
		},
		{[]string{"read on a", "query on *"}, nil},
		{[]string{"start on *"}, []string{}},
		{nil, []string{}},
	} {
		p := parse(t, c.grants...)
		if got := p.Namespaces("query"); !slices.Equal(got, c.want) || (got == nil) != (c.want == nil) {
			t.Errorf("%q: %q, want %q", c.grants, got, c.want)
		}
	}
	admin := access.Principal{Admin: true}
	if got := admin.Namespaces("query"); got != nil {
		t.Errorf("an administrator has %q", got)
	}
}

func TestRightsOnHosts(t *testing.T) {
	p := parse(t, "* on ns at area:1", "* on * at area:2")
	for _, tt := range []struct {
		op   access.Operation
		area int
		want bool
	}{
		{access.ReadAgents, 1, true},
		{access.ReadAgents, 2, true},
		{access.ReadAgents, 3, false},
		{access.RenameAgents, 1, false}, // other namespaces have processes there
		{access.RenameAgents, 2, true},
		{access.LabelAgents, 1, false}, // labels may grant rights to any namespace
		{access.LabelAgents, 2, true},
	} {
		if got := p.OnHosts(tt.op).Covers(access.Host{Area: tt.area, IP: "10.0.0.1"}); got != tt.want {
			t.Errorf("%s in area %d is %v, want %v", tt.op, tt.area, got, tt.want)
		}
	}
}

func TestEveryProcessOperationIsARight(t *testing.T) {
	all := access.Operations()
	for _, op := range []process.Op{
		process.Start, process.Stop, process.Query, process.Host, process.Unhost, process.Restart, process.Reload,
		process.Kill,
		process.Register, process.Update, process.Unregister, process.Retry,
	} {
		if !slices.Contains(all, access.OperationOf(op)) {
			t.Errorf("there is no right to %s", op)
		}
	}
	seen := map[access.Operation]bool{}
	for _, op := range all {
		if seen[op] {
			t.Errorf("%s is listed twice", op)
		}
		seen[op] = true
	}
	for _, g := range access.Groups() {
		if len(access.Members(g)) == 0 {
			t.Errorf("group %s is empty", g)
		}
	}
}

func TestMissing(t *testing.T) {
	var m access.Missing
	if m.Any() {
		t.Error("a right is lacking from the start")
	}
	m.Found("start", "ns/a", "0:10.0.0.1")
	m.Found("stop", "ns/b", "0:10.0.0.2")
	if got := m.What(); !m.Any() || got != "start ns/a on 0:10.0.0.1" || m.More != 1 {
		t.Errorf("missing is %q and %d more", got, m.More)
	}
	var hosts access.Missing
	hosts.Found(access.RenameAgents, "", "")
	if got := hosts.What(); got != "rename-agents" {
		t.Errorf("missing is %q", got)
	}
	if got := (access.Host{Area: 1, ID: "x"}).Address(); got != "x" {
		t.Errorf("a host without an address is shown as %q", got)
	}
}

func TestLimits(t *testing.T) {
	for _, l := range []access.Limits{{}, {Rate: 0.1, Burst: 1, Concurrent: 1}, {Rate: 1e6}} {
		if err := l.Validate(); err != nil {
			t.Errorf("%+v: %v", l, err)
		}
	}
	for _, l := range []access.Limits{
		{Rate: -1},
		{Rate: math.NaN()},
		{Rate: math.Inf(1)},
		{Burst: -1},
		{Concurrent: -1},
		{Burst: 1e7},
	} {
		if l.Validate() == nil {
			t.Errorf("%+v was taken", l)
		}
	}
}

// TestRightsOfOperations: each operation of process.Ops needs a right that a grant can name.
func TestRightsOfOperations(t *testing.T) {
	for _, row := range process.Ops() {
		if right := access.OperationOf(row.Op); !slices.Contains(access.Operations(), right) {
			t.Errorf("%s needs the right %q, which is unknown", row.Op, right)
		}
	}
}
