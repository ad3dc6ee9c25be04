package api_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"drover/internal/process"
	"drover/internal/server/api"
	"drover/internal/server/api/processes"
	"drover/internal/server/store"
)

// record stores records of a run of an agent, given as "namespace/name seconds state pid cause", the seconds counted
// from morning(). A row "/" is about the agent.
func (r *rig) record(key, stream string, rows ...string) {
	r.t.Helper()
	var events []process.Event
	registered := map[string]int64{}
	for i, row := range rows {
		var seconds float64
		var id string
		var shown process.Shown
		fields := strings.Fields(row)
		fields = append(fields, "0", "-")[:max(5, len(fields))]
		if len(fields) == 5 && fields[4] == "0" {
			fields[4] = "-"
		}
		id, shown.State = fields[0], fields[2]
		_, err := fmt.Sscan(fields[1], &seconds)
		r.must(err)
		_, err = fmt.Sscan(fields[3], &shown.PID)
		r.must(err)
		if fields[4] != "-" {
			shown.Cause, shown.Text = process.CauseID(fields[4]), "because"
		}
		namespace, name, _ := strings.Cut(id, "/")
		if name == "" {
			shown.Version = strings.Join(fields[4:], " ")
		}
		shown.Gone = shown.State == "gone"
		if registered[id] == 0 {
			registered[id] = morning().Unix() + int64(seconds)
		}
		shown.RegisteredAt = registered[id]
		at := morning().Add(time.Duration(seconds * float64(time.Second))).UnixMilli()
		shown.Since = at
		events = append(events, process.Event{
			Stream: stream, Seq: uint64(i + 1), At: at, Kind: process.EventState, Shown: &shown,
			Process: process.ID{Namespace: namespace, Name: name},
		})
	}
	r.put(key, events...)
}

// day has two hosts: one that fails at ten past ten, and one whose agent is gone from 10:00:30 to 10:02:00.
func (r *rig) day() {
	r.record(web, "run1", "/ 0 running 0 1.0", "shop/api 1 running 11", "shop/db 1 running 12", "own/x 1 running 13",
		"shop/api 100 backoff 0 exit-status", "shop/db 110 running 99", "shop/new 120 running 55", "own/x 130 gone",
		"shop/db 400 running 99")
	r.record(plain, "run1", "/ 0 running 0 1.0", "shop/api 1 running 21", "shop/api 30 running 22")
	r.record(plain, "run2", "/ 120 running 0 2.0", "shop/api 120 stopped 0 stopped-by-operation",
		"shop/api 400 stopped 0 stopped-by-operation")
}

// lines formats fields of the entries of a list; a missing one is a dash.
func (a answer) lines(list string, fields ...string) (all []string) {
	for _, entry := range a.body[list].([]any) {
		var parts []string
		for _, f := range fields {
			v := entry
			for step := range strings.SplitSeq(f, ".") {
				inner, _ := v.(map[string]any)
				v = inner[step]
			}
			if v == nil {
				v = "-"
			}
			parts = append(parts, fmt.Sprint(v))
		}
		all = append(all, strings.Join(parts, " "))
	}
	return all
}

func clock(seconds int) string {
	return morning().Add(time.Duration(seconds) * time.Second).Format(time.RFC3339)
}

func TestProcessesAt(t *testing.T) {
	r := newRig(t)
	r.app("admin")
	r.app("reader", "read on shop at 0:10.0.0.1")
	r.day()
	list := func(app, query string) []string {
		t.Helper()
		return r.want(200, r.call(app, "GET", "/processes?"+query, nil)).lines("items", "namespace", "name", "host.id", "state",
			"instance.pid", "unknown.why")
	}
	for query, want := range map[string][]string{
		"at=" + clock(20): {
			"own x web-1 running 13 -", "shop api 0:10.0.0.2 running 21 -", "shop api web-1 running 11 -",
			"shop db web-1 running 12 -",
		},
		"at=" + clock(100): {
			"own x web-1 running 13 -", "shop api 0:10.0.0.2 unknown - not-heard", "shop api web-1 backoff - -",
			"shop db web-1 running 12 -",
		},
		"at=" + clock(200): {
			"shop api 0:10.0.0.2 stopped - -", "shop api web-1 backoff - -", "shop db web-1 running 99 -",
			"shop new web-1 running 55 -",
		},
		"name=api&at=" + clock(200):                    {"shop api 0:10.0.0.2 stopped - -", "shop api web-1 backoff - -"},
		"state=backoff&state=stopped&at=" + clock(200): {"shop api 0:10.0.0.2 stopped - -", "shop api web-1 backoff - -"},
		"host=web-1&namespace=shop&at=" + clock(20):    {"shop api web-1 running 11 -", "shop db web-1 running 12 -"},
		"state=unknown&at=" + clock(100):               {"shop api 0:10.0.0.2 unknown - not-heard"},
		"at=1970-01-01T00:00:00Z":                      nil,
	} {
		same(t, query, want, list("admin", query))
	}
	same(t, "what an app may see", []string{"shop api web-1 running 11 -", "shop db web-1 running 12 -"},
		list("reader", "at="+clock(20)))
	a := r.want(200, r.call("admin", "GET", "/processes?at="+clock(100), nil))
	if unknown := a.body["items"].([]any)[1].(map[string]any)["unknown"].(map[string]any); unknown["since"] != clock(30) ||
		unknown["last"] != "running" {
		t.Errorf("the unknown state is %v", unknown)
	}
	if past := a.body["past"].(map[string]any); past["at"] != clock(100) || past["kept_since"] == nil {
		t.Errorf("the bound is %v", past)
	}
	var walked []string
	for cursor := ""; ; {
		a := r.want(200, r.call("admin", "GET", "/processes?limit=1&at="+clock(20)+"&cursor="+cursor, nil))
		walked = append(walked, a.items("namespace", "name", "host.id")...)
		if cursor = a.cursor(); cursor == "" {
			break
		}
	}
	same(t, "pages", []string{"own x web-1", "shop api 0:10.0.0.2", "shop api web-1", "shop db web-1"}, walked)
	n := r.want(200, r.call("admin", "GET", "/processes/counts?namespace=shop&at="+clock(100), nil))
	if fmt.Sprint(n.body) != "map[stale:1 states:map[backoff:1 running:1] total:3]" {
		t.Errorf("the counts are %v", n.body)
	}
	for query, field := range map[string]string{
		"at=x": "at", "at=" + time.Now().Add(time.Hour).Format(time.RFC3339): "at", "spec=true&at=" + clock(1): "spec",
		"process_selector=a%3Db&at=" + clock(1): "process_selector", "limit=0&at=" + clock(1): "limit",
		"what=x&at=" + clock(1): "what",
	} {
		r.refused(r.call("admin", "GET", "/processes?"+strings.ReplaceAll(query, "+", "%2B"), nil), 422, field)
	}
	both := r.call("admin", "GET", "/processes?spec=true&process_selector=a%3Db&at="+clock(1), nil)
	if fields := both.body["errors"].([]any); len(fields) != 2 {
		t.Errorf("the faults are %v", fields)
	}
}

// TestRemovedHosts: what is kept of a removed host is found by its name, with its rights, and the host has no process
// after the removal.
func TestRemovedHosts(t *testing.T) {
	r := newRig(t)
	r.app("admin")
	r.app("there", "read on shop at 0:10.0.0.2")
	r.app("elsewhere", "read on shop at 0:10.0.0.1")
	r.day()
	r.ahead.Store(int64(time.Until(morning().Add(time.Hour))))
	r.put(plain, process.Event{
		Stream: "e", Seq: 1, At: morning().UnixMilli() + 120_000, Kind: process.EventStopped,
		Process: process.ID{Namespace: "shop", Name: "api"},
	})
	r.observe("a/x@" + web + " running")
	r.want(202, r.call("admin", "POST", "/tasks", `{"op":"stop","targets":[{"namespace":"a","name":"x"}]}`))
	r.must(r.fleet.Remove(t.Context(), plain, func(ctx context.Context) error {
		return r.store.RemoveAgent(ctx, plain, morning().Add(250*time.Second), nil)
	}))
	for _, app := range []string{"admin", "there", "elsewhere"} {
		stopped, before := []string{"0:10.0.0.2 false stopped"}, []string{"0:10.0.0.2 stopped"}
		if app == "elsewhere" {
			stopped, before = nil, nil
		}
		for _, name := range []string{"0:10.0.0.2", "0:10.0.*"} {
			same(t, app+" events "+name, stopped, r.want(200, r.call(app, "GET", "/events?namespace=shop&kind=stopped&host="+name,
				nil)).lines("items", "host.id", "host.online", "kind"))
			rows := r.want(200, r.call(app, "GET", "/processes?host="+name+"&at="+clock(240), nil)).lines("items", "host.id",
				"state")
			if slices.Contains(rows, "0:10.0.0.2 stopped") != (before != nil) {
				t.Errorf("%s before, of %s: %q, want %q", app, name, rows, before)
			}
		}
		same(t, app+" after", []string(nil), r.want(200, r.call(app, "GET", "/processes?host=0:10.0.0.2&at="+clock(260),
			nil)).lines("items", "host.id", "state"))
	}
	for query, want := range map[string]int{"": 1, "&host=0:10.0.0.2": 0, "&host=web-1": 1} {
		a := r.want(200, r.call("admin", "GET", "/changes?from="+clock(20)+query, nil))
		same(t, "operations "+query, want, len(a.body["operations"].([]any)))
	}
	a := r.want(200, r.call("admin", "GET", "/changes?from="+clock(200)+"&to="+clock(300)+"&host=0:10.0.0.2", nil))
	same(t, "hosts", []string{"0:10.0.0.2 removed"}, a.lines("hosts", "host.id", "kind"))
	r.must(r.store.CreateJoinToken(t.Context(), store.JoinToken{ID: "t", Uses: 1, Expires: time.Now().Add(time.Hour)}))
	again := store.Agent{Key: plain, IP: "10.0.0.2", Token: "t", Created: morning().Add(280 * time.Second)}
	r.must(r.fleet.Admit(t.Context(), again, time.Now(), func(ctx context.Context, a store.Agent) error {
		return r.store.UseJoinToken(ctx, a, func(store.JoinToken, bool) error { return nil })
	}))
	a = r.want(200, r.call("admin", "GET", "/changes?from="+clock(200)+"&to="+clock(300)+"&host=0:10.0.0.2", nil))
	same(t, "after it has joined again", []string{"0:10.0.0.2 removed", "0:10.0.0.2 joined"},
		a.lines("hosts", "host.id", "kind"))
	same(t, "an unknown name", 0, len(r.want(200, r.call("admin", "GET", "/events?host=nowhere", nil)).body["items"].([]any)))
}

// TestRenamedHosts: a host that has joined again under other names is found by its earlier ones, with the rights to the
// present host, and its change of names is told.
func TestRenamedHosts(t *testing.T) {
	r := newRig(t)
	r.app("admin")
	r.app("before", "read on shop at 0:10.0.0.2")
	r.day()
	r.ahead.Store(int64(time.Until(morning().Add(time.Hour))))
	r.must(r.store.CreateJoinToken(t.Context(), store.JoinToken{ID: "t", Uses: 9, Expires: time.Now().Add(time.Hour)}))
	for i, to := range []store.Agent{{IP: "10.0.0.17"}, {IP: "10.0.0.17", ID: "web-six"}} {
		to.Key, to.Token, to.Created = plain, "t", morning().Add(time.Duration(250+10*i)*time.Second)
		r.must(r.fleet.Admit(t.Context(), to, time.Now().Add(time.Hour), func(ctx context.Context, a store.Agent) error {
			return r.store.UseJoinToken(ctx, a, func(store.JoinToken, bool) error { return nil })
		}))
	}
	for _, name := range []string{"0:10.0.0.2", "0:10.0.0.17", "web-six"} {
		same(t, "processes of "+name, []string{"web-six stopped"}, r.want(200, r.call("admin", "GET",
			"/processes?host="+name+"&at="+clock(240), nil)).lines("items", "host.id", "state"))
		same(t, "changes of "+name, []string{
			"web-six renamed 0:10.0.0.2 → 0:10.0.0.17", "web-six joined -", "web-six renamed 0:10.0.0.17 → web-six",
		}, r.want(200, r.call("admin", "GET", "/changes?from="+clock(200)+"&to="+clock(300)+"&host="+name, nil)).
			lines("hosts", "host.id", "kind", "text"))
		same(t, "without the right to "+name, []string(nil), r.want(200, r.call("before", "GET",
			"/processes?host="+name+"&at="+clock(240), nil)).lines("items", "host.id", "state"))
	}
}

// TestLostRecords: a state after a loss is unknown until the next record.
func TestLostRecords(t *testing.T) {
	r := newRig(t)
	r.app("admin")
	record := func(seq uint64, seconds int, pid int) process.Event {
		return process.Event{
			Stream: "run", Seq: seq, At: morning().Add(time.Duration(seconds) * time.Second).UnixMilli(),
			Kind: process.EventState, Process: process.ID{Namespace: "shop", Name: "api"},
			Shown: &process.Shown{State: process.StateRunning, PID: pid, RegisteredAt: morning().Unix()},
		}
	}
	r.put(web, record(1, 1, 5), record(2, 10, 6), record(4, 60, 7))
	for seconds, want := range map[int]string{
		5: "running 5 -", 20: "unknown - lost", 59: "unknown - lost", 60: "running 7 -", 100: "running 7 -",
	} {
		same(t, fmt.Sprint("after ", seconds, " s"), []string{want},
			r.want(200, r.call("admin", "GET", "/processes?at="+clock(seconds), nil)).lines("items", "state", "instance.pid",
				"unknown.why"))
	}
}

func TestChanges(t *testing.T) {
	r := newRig(t)
	r.app("admin")
	r.app("reader", "read on shop at 0:10.0.0.1")
	r.day()
	r.ahead.Store(int64(time.Until(morning().Add(time.Hour))))
	at := func(seconds int) time.Time { return morning().Add(time.Duration(seconds) * time.Second) }
	r.must(r.store.PutAbsence(t.Context(), store.Absence{Agent: plain, Since: at(31), Until: at(119)}))
	changes := func(app string, from, to int, more string) answer {
		t.Helper()
		return r.want(200, r.call(app, "GET", "/changes?from="+clock(from)+"&to="+clock(to)+more, nil))
	}
	a := changes("admin", 20, 300, "")
	same(t, "groups", []string{
		"running backoff exit-status 1 1", "running stopped stopped-by-operation 1 1", "running - - 1 1", "- running - 1 1",
		"running running - 1 1",
	}, a.lines("groups", "from", "to", "cause", "count", "hosts"))
	same(t, "processes", []string{
		"shop api web-1 11 -", "shop api 0:10.0.0.2 21 -", "own x web-1 13 -", "shop new web-1 - 55", "shop db web-1 12 99",
	}, a.lines("processes", "namespace", "name", "host.id", "from_pid", "to_pid"))
	same(t, "hosts", []string{"0:10.0.0.2 away for 1m28s", "0:10.0.0.2 back after 1m28s", "0:10.0.0.2 agent-changed 1.0 → 2.0"},
		a.lines("hosts", "host.id", "kind", "text"))
	if a.body["changed"].(float64) != 5 {
		t.Errorf("changed are %v", a.body["changed"])
	}
	a = changes("reader", 20, 300, "")
	if a.body["changed"].(float64) != 3 || len(a.body["hosts"].([]any)) != 0 {
		t.Errorf("an app that may see one host gets %v", a.body)
	}
	a = changes("admin", 20, 300, "&process=shop/d*&process=own/x")
	same(t, "named processes", []string{"own x", "shop db"}, a.lines("processes", "namespace", "name"))
	a = changes("admin", 20, 300, "&host=web-1&limit=1")
	if a.body["changed"].(float64) != 4 || len(a.body["processes"].([]any)) != 1 ||
		fmt.Sprint(a.body["incomplete"]) != "[processes]" || len(a.body["hosts"].([]any)) != 0 {
		t.Errorf("a short list is %v", a.body)
	}
	// Rollouts and operations follow the chosen hosts.
	r.observe("a/x@" + plain + " running")
	r.want(202, r.roll("admin", map[string]any{"batch": 1}, nil))
	r.want(202, r.call("admin", "POST", "/tasks", `{"op":"stop","targets":[{"namespace":"a","name":"x"}]}`))
	for query, want := range map[string][]int{
		"": {1, 1}, "&host=0:10.0.0.2": {1, 1}, "&host=web-1": {0, 0}, "&host=nowhere": {0, 0}, "&selector=role%3Dnosuch": {0, 0},
	} {
		a = r.want(200, r.call("admin", "GET", "/changes?from="+clock(20)+query, nil))
		same(t, "rollouts and operations "+query, want,
			[]int{len(a.body["rollouts"].([]any)), len(a.body["operations"].([]any))})
	}
	a = changes("admin", 300, 350, "")
	if a.body["changed"].(float64) != 0 {
		t.Errorf("in a quiet time there are %v", a.body)
	}
	for query, field := range map[string]string{
		"": "from", "from=x": "from", "from=" + clock(9) + "&to=" + clock(9): "from",
		"from=" + clock(9) + "&process=x": "process", "from=" + clock(9) + "&limit=1001": "limit",
		"from=" + clock(9) + "&namespace=x":                                                "namespace",
		"from=" + clock(9) + "&to=" + time.Now().Add(time.Hour).UTC().Format(time.RFC3339): "to",
	} {
		r.refused(r.call("admin", "GET", "/changes?"+query, nil), 422, field)
	}
}

// TestUpgradesInChanges: the trial of a version and the run after it are one upgrade.
func TestUpgradesInChanges(t *testing.T) {
	r := newRig(t)
	r.app("admin")
	r.day()
	r.ahead.Store(int64(time.Until(morning().Add(time.Hour))))
	for i, run := range []string{"500 3.0 (trial)", "510 3.0", "600 4.0 (trial)", "610 3.0", "700 3.0", "800 5.0 (trial)"} {
		at, version, _ := strings.Cut(run, " ")
		r.record(plain, fmt.Sprint("later", i), "/ "+at+" running 0 "+version)
	}
	a := r.want(200, r.call("admin", "GET", "/changes?from="+clock(450)+"&to="+clock(900), nil))
	same(t, "hosts", []string{
		"agent-changed 2.0 → 3.0 " + clock(510), "agent-changed 3.0 → 4.0 (trial) " + clock(600),
		"agent-changed 4.0 (trial) → 3.0 " + clock(610), "agent-restarted 3.0 " + clock(700),
		"agent-changed 3.0 → 5.0 (trial) " + clock(800),
	}, a.lines("hosts", "kind", "text", "at"))
}

// TestOldChanges: a comparison says since when operations are kept, which is no lack of room for entries, and a host
// that was removed has a name.
func TestOldChanges(t *testing.T) {
	r := newRig(t)
	r.app("admin")
	r.day()
	gap := func(later time.Duration) string {
		t.Helper()
		r.ahead.Store(int64(time.Until(morning().Add(later))))
		a := r.want(200, r.call("admin", "GET", "/changes?from="+clock(20)+"&to="+clock(300), nil)).body
		kept, err := time.Parse(time.RFC3339, fmt.Sprint(a["operations_kept_since"]))
		return fmt.Sprint(a["incomplete"], kept.After(morning()), err)
	}
	same(t, "after an hour", "<nil> false <nil>", gap(time.Hour))
	same(t, "after eight days", "<nil> true <nil>", gap(8*24*time.Hour))
	r.must(r.fleet.Remove(t.Context(), plain, func(context.Context) error { return nil }))
	a := r.want(200, r.call("admin", "GET", "/changes?from="+clock(20)+"&to="+clock(300), nil))
	for _, list := range []string{"processes", "hosts"} {
		if hosts := a.lines(list, "host.id"); !slices.Contains(hosts, plain) {
			t.Errorf("the hosts of %s are %q, want %s among them", list, hosts, plain)
		}
	}
}

// counted counts the reads of states at a moment.
type counted struct {
	processes.Timeline
	reads int
}

func (c *counted) StatesAt(ctx context.Context, f store.ObservedFilter, at time.Time, after store.ObservedKey, limit int) (
	[]store.RecordedState, bool, error,
) {
	c.reads++
	return c.Timeline.StatesAt(ctx, f, at, after, limit)
}

// TestRareStatesOfThePast: a short page of a rare state takes few reads, and the pages have each process once.
func TestRareStatesOfThePast(t *testing.T) {
	r := newRig(t)
	r.app("admin")
	const all, rare = 3000, 7
	rows, want := []string{"/ 0 running 0 1.0"}, []string{}
	for n := range all {
		state := "running"
		if n%(all/rare) == 5 {
			state = "backoff"
			want = append(want, fmt.Sprintf("p%04d", n))
		}
		rows = append(rows, fmt.Sprintf("shop/p%04d 1 %s 11", n, state))
	}
	r.record(web, "run1", rows...)
	for _, limit := range []int{1, 3, 1000} {
		line := &counted{Timeline: r.store}
		r.remake(func(c *api.Config) { c.Timeline = line })
		var got []string
		for cursor, most := "", 0; ; {
			a := r.want(200, r.call("admin", "GET",
				fmt.Sprintf("/processes?state=backoff&limit=%d&at=%s&cursor=%s", limit, clock(20), cursor), nil))
			got = append(got, a.items("name")...)
			if most = max(most, line.reads); most > 16 {
				t.Fatalf("with pages of %d, a page took %d reads", limit, most)
			}
			line.reads = 0
			if cursor = a.cursor(); cursor == "" {
				break
			}
		}
		same(t, fmt.Sprintf("in pages of %d", limit), want, got)
	}
}

// TestAReportThatWasLongUnderWay: it looks like a clock that is behind. A host that is online is known up to now all the
// same.
func TestAReportThatWasLongUnderWay(t *testing.T) {
	r := newRig(t)
	r.app("admin")
	r.day()
	r.fleet.Clock(web, -3*time.Second)
	query := "/processes?host=web-1&at=" + time.Now().UTC().Format(time.RFC3339)
	for _, line := range r.want(200, r.call("admin", "GET", query, nil)).lines("items", "name", "state", "unknown.why") {
		if strings.Contains(line, "unknown") || !strings.HasSuffix(line, " -") {
			t.Errorf("the list says %q", line)
		}
	}
}
