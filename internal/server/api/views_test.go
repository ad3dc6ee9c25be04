package api_test

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"drover/internal/process"
	"drover/internal/server/api"
	"drover/internal/server/store"
)

// fail stores processes with a cause, given as "namespace/name@KEY".
func (r *rig) fail(cause process.CauseID, rows ...string) {
	r.t.Helper()
	for _, row := range rows {
		r.observe(row + " " + process.StateGivenUp)
		o := r.last
		o.Status.Cause = process.Cause{ID: cause, Text: "it failed", Since: 1_700_000_000_000}
		r.must(r.store.PutObserved(r.t.Context(), r.mark(o.Agent), []store.Observed{o}, nil))
	}
}

func equal(t *testing.T, got, want any) {
	t.Helper()
	same(t, fmt.Sprintf("%T", got), want, got)
}

// total returns the total of a page.
func (a answer) total() int { return int(a.body["total"].(float64)) }

// TestOverview: the counts are right, limited by rights, and each leads to a list with that very count.
func TestOverview(t *testing.T) {
	r := newRig(t)
	r.app("admin")
	r.app("shop", "query,read-agents on shop at 0:*")
	r.observe("shop/api@"+web+" running", "shop/api@"+plain+" running", "shop/api@2@"+plain+" running",
		"shop/api@"+gone+" running", "pay/db@"+web+" stopped")
	r.fail(process.CauseExitStatus, "shop/bad@"+web, "shop/bad@"+plain, "pay/bad@"+web)
	r.fail(process.CauseOOM, "pay/big@"+web)

	all := r.want(200, r.call("admin", "GET", "/overview", nil)).body
	equal(t, all["processes"], map[string]any{
		"states": map[string]any{"running": 3., "stopped": 1., "given-up": 4.}, "stale": 1., "total": 9.,
	})
	equal(t, all["wrong"], 5.)
	hosts := all["hosts"].(map[string]any)
	if hosts["online"] != 2. || hosts["away"] != 1. || hosts["oldest_report"] == nil {
		t.Errorf("hosts: %v", hosts)
	}
	causes := all["causes"].([]any)
	why := r.want(200, r.call("admin", "GET", "/why", nil)).body["causes"].([]any)
	if len(causes) != 3 || len(why) != 3 {
		t.Fatalf("causes: %v; why: %v", causes, why)
	}
	for i, c := range causes {
		cause, other := c.(map[string]any), why[i].(map[string]any)
		if cause["id"] != other["id"] || cause["count"] != other["count"] || cause["severity"] != other["severity"] {
			t.Errorf("%v differs from why: %v", cause, other)
		}
		page := r.want(200, r.call("admin", "GET", fmt.Sprint("/processes?count=true&cause=", cause["id"]), nil))
		if n := cause["count"].(float64); page.total() != int(n) || len(page.items("name")) != int(n) {
			t.Errorf("%v leads to %d of %v", cause, page.total(), page.items("namespace", "name", "host.id"))
		}
	}
	for query, n := range map[string]int{
		"": 9, "state=running&stale=false": 3, "stale=true": 1, "state=running": 4, "hosted=false": 0,
		"name=api": 4, "namespace=s*&name=api": 4, "host=web-1": 5, "process_selector=a%3Db": 0, "version=1": 0,
	} {
		page := r.want(200, r.call("admin", "GET", "/processes?count=true&"+query, nil))
		if page.total() != n || len(page.items("name")) != n {
			t.Errorf("%s finds %d: %v", query, page.total(), page.items("name"))
		}
	}
	mine := r.want(200, r.call("shop", "GET", "/overview", nil)).body
	equal(t, mine["processes"], map[string]any{"states": map[string]any{"running": 3., "given-up": 2.}, "stale": 0., "total": 5.})
	equal(t, mine["hosts"].(map[string]any)["away"], 0.)
	page := r.want(200, r.call("shop", "GET", "/processes?count=true", nil))
	equal(t, page.total(), 5)
	r.refused(r.call("admin", "GET", "/overview?cause=nonsense", nil), 422, "cause")
	r.refused(r.call("admin", "GET", "/overview?sate=running", nil), 422, "sate")
	r.refused(r.call("admin", "GET", "/processes?sort=size", nil), 422, "sort")

	// What changes is seen, and what is removed is gone.
	r.observe("pay/db@" + web + " running")
	r.must(r.store.RemoveAgent(t.Context(), gone, time.Now(), nil))
	all = r.want(200, r.call("admin", "GET", "/overview", nil)).body
	equal(t, all["processes"], map[string]any{"states": map[string]any{"running": 4., "given-up": 4.}, "stale": 0., "total": 8.})
}

// TestOverviewOfACrashLoop: a process counts under each cause that is a problem, so that the group of a crash loop does
// not come and go with its attempts, and leads to a list with that very count.
func TestOverviewOfACrashLoop(t *testing.T) {
	r := newRig(t)
	r.app("admin")
	loops := func(key string, causes ...process.CauseID) {
		r.fail(causes[0], "shop/api@"+key)
		o := r.last
		o.Status.State = process.StateFlapping
		o.Status.Cause = process.Cause{ID: causes[0], Text: "it failed", Since: 1_700_000_000_000}
		for _, id := range causes[1:] {
			o.Status.Further = append(o.Status.Further, process.Cause{ID: id, Text: "besides", Since: 1_600_000_000_000})
		}
		r.must(r.store.PutObserved(t.Context(), r.mark(key), []store.Observed{o}, nil))
	}
	loops(web, process.CauseExitStatus, process.CauseFlapping, process.CauseFlapping)
	loops(plain, process.CauseFlapping, process.CauseOutside)
	all := r.want(200, r.call("admin", "GET", "/overview", nil)).body
	equal(t, all["wrong"], 2.)
	counts := map[string]any{}
	for _, c := range all["causes"].([]any) {
		cause := c.(map[string]any)
		id := cause["id"].(string)
		counts[id] = cause["count"]
		page := r.want(200, r.call("admin", "GET", "/processes?count=true&cause="+id, nil))
		equal(t, float64(page.total()), cause["count"])
		if id == "flapping" && cause["since"] != "2020-09-13T12:26:40Z" {
			t.Errorf("flapping since %v", cause["since"])
		}
	}
	equal(t, counts, map[string]any{"flapping": 2., "exit-status": 1.})
}

// TestTrend: a trend counts the processes that have a cause now, by when they came to it.
func TestTrend(t *testing.T) {
	r := newRig(t)
	r.app("admin")
	now := time.Now()
	for row, ago := range map[string]time.Duration{
		"a/day@" + web: 24 * time.Hour, "a/hour@" + web: time.Hour + time.Minute, "a/edge@" + web: 59 * time.Minute,
		"a/half@" + web: 31 * time.Minute, "a/half@" + plain: 33 * time.Minute, "a/new@" + web: time.Minute,
		"a/ahead@" + web: -time.Hour,
	} {
		r.fail(process.CauseExitStatus, row)
		o := r.last
		o.Status.Cause = process.Cause{ID: process.CauseExitStatus, Text: "it failed", Since: now.Add(-ago).UnixMilli()}
		r.must(r.store.PutObserved(t.Context(), r.mark(o.Agent), []store.Observed{o}, nil))
	}
	all := r.want(200, r.call("admin", "GET", "/overview", nil)).body["causes"].([]any)
	equal(t, len(all), 1)
	equal(t, all[0].(map[string]any)["trend"], any([]any{3., 3., 3., 3., 3., 5., 5., 5., 5., 5., 5., 7.}))
}

// TestGroups: groups have the counts of their processes, in each order, over pages.
func TestGroups(t *testing.T) {
	r := newRig(t)
	r.app("admin")
	r.app("shop", "query on shop")
	r.observe("shop/api@"+web+" running", "shop/api@"+plain+" running", "shop/api@2@"+plain+" running",
		"pay/db@"+web+" stopped", "pay/api@"+gone+" running")
	r.fail(process.CauseExitStatus, "shop/bad@"+plain)
	for _, tt := range []struct {
		query string
		want  []string
	}{
		{"group=process", []string{"pay/api 1 1 1", "pay/db 1 1 0", "shop/api 3 2 0", "shop/bad 1 1 1"}},
		{"group=process&sort=-total", []string{"shop/api 3 2 0", "pay/api 1 1 1", "pay/db 1 1 0", "shop/bad 1 1 1"}},
		{"group=process&sort=-wrong", []string{"pay/api 1 1 1", "shop/bad 1 1 1", "pay/db 1 1 0", "shop/api 3 2 0"}},
		{"group=namespace", []string{"pay 2 2 1", "shop 4 2 1"}},
		{"group=area", []string{"0 5 2 1", "3 1 1 1"}},
		{"group=host&state=running", []string{"0:10.0.0.2 2 1 0", "3:10.0.0.3 1 1 1", "web-1 1 1 0"}},
		{"group=cause&namespace=shop", []string{" 3 2 0", "exit-status 1 1 1"}},
		{"group=label:role", []string{" 6 3 2"}},
		{"group=process&search=WEB-1", []string{"pay/db 1 1 0", "shop/api 1 1 0"}},
		{"group=process&search=y/a", []string{"pay/api 1 1 1"}},
	} {
		for limit := 1; limit <= len(tt.want)+1; limit++ {
			var got []string
			cursor := ""
			for {
				page := r.want(200, r.call("admin", "GET",
					fmt.Sprintf("/processes?%s&count=true&limit=%d&cursor=%s", tt.query, limit, cursor), nil))
				got = append(got, page.items("key", "total", "hosts", "wrong")...)
				equal(t, page.total(), len(tt.want))
				if page.cursor() == "" {
					break
				}
				cursor = page.cursor()
			}
			equal(t, got, tt.want)
		}
	}
	equal(t, r.want(200, r.call("shop", "GET", "/processes?group=namespace", nil)).items("key", "total"), []string{"shop 4"})
	hidden := r.want(200, r.call("shop", "GET", "/processes?search=PAY&count=true", nil))
	equal(t, hidden.total(), 0)
	equal(t, r.want(200, r.call("shop", "GET", "/overview?search=web-1", nil)).body["processes"].(map[string]any)["total"], 1.)
	for _, by := range []string{"size", "label:"} {
		r.refused(r.call("admin", "GET", "/processes?group="+by, nil), 422, "group")
	}

	r.observe("shop/api@2@" + plain + " running")
	r.last.Status.Usage = &process.Usage{CPU: 1.2, Mem: 7, Processes: 1, At: 1}
	r.must(r.store.PutObserved(t.Context(), r.mark(plain), []store.Observed{r.last}, nil))
	for order, want := range map[string][]string{
		"process": {"pay/api", "pay/db", "shop/api", "shop/api", "shop/api@2", "shop/bad"},
		"host":    {"shop/api", "shop/api@2", "shop/bad", "pay/api", "pay/db", "shop/api"},
		"state":   {"shop/bad", "pay/api", "shop/api", "shop/api", "shop/api@2", "pay/db"},
		"-cpu":    {"pay/api", "shop/api", "shop/api", "shop/api@2", "pay/db", "shop/bad"},
		"-memory": {"shop/api@2", "pay/api", "shop/api", "shop/api", "pay/db", "shop/bad"},
		"-since":  {"shop/bad", "pay/api", "pay/db", "shop/api", "shop/api", "shop/api@2"},
	} {
		for limit := 1; limit <= len(want); limit++ {
			var got []string
			cursor := ""
			for {
				page := r.want(200, r.call("admin", "GET",
					fmt.Sprintf("/processes?sort=%s&limit=%d&cursor=%s", order, limit, cursor), nil))
				for _, item := range page.items("namespace", "name") {
					var namespace, name string
					_, _ = fmt.Sscan(item, &namespace, &name)
					got = append(got, namespace+"/"+name)
				}
				if cursor = page.cursor(); cursor == "" {
					break
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("sort=%s in pages of %d: %v, want %v", order, limit, got, want)
			}
		}
	}
}

// TestRolloutLeavesOut: the answer to a rollout tells how many processes match its selection only since then.
func TestRolloutLeavesOut(t *testing.T) {
	r := newRig(t)
	r.app("admin")
	r.observe("shop/web@" + web + " running")
	s := r.want(201, r.call("admin", "POST", "/selections?namespace=shop", map[string]any{"op": "restart"})).body
	r.observe("shop/web@" + plain + " running")
	begun := r.want(202, r.call("admin", "POST", "/tasks", map[string]any{
		"op": "restart", "selection": s["id"], "rollout": map[string]any{"batch": 1},
	})).body
	if begun["left_out"] != 1. || begun["counts"].(map[string]any)["hosts"] != 1. {
		t.Errorf("rollout: %v", begun)
	}
	again := r.want(200, r.call("admin", "GET", fmt.Sprintf("/rollouts/%v", begun["id"]), nil)).body
	if again["left_out"] != nil {
		t.Errorf("later: %v", again)
	}
}

// TestSelection: an operation is for exactly the processes of its selection, whoever comes meanwhile, and a selection
// is only for its owner and its time.
func TestSelection(t *testing.T) {
	r := newRig(t)
	r.app("admin")
	r.app("shop", "query,restart on shop", "query on pay")
	r.observe("shop/api@"+web+" running", "shop/api@"+plain+" running", "shop/web@"+web+" running",
		"pay/api@"+web+" running", "shop/down@"+web+" stopped")
	choose := func(app, query string, body map[string]any) map[string]any {
		t.Helper()
		return r.want(201, r.call(app, "POST", "/selections?"+query, body)).body
	}
	except := []any{map[string]any{"namespace": "shop", "name": "web", "hosts": []any{"web-1"}}}
	s := choose("shop", "namespace=shop&state=running", map[string]any{"op": "restart", "except": except})
	if s["targets"] != 2. || s["hosts"] != 2. || s["away"] != 0. || s["denied_count"] != 0. || len(s["sample"].([]any)) != 2 {
		t.Errorf("selection: %v", s)
	}
	use := map[string]any{"op": "restart", "selection": s["id"]}
	r.observe("shop/new@"+web+" running", "shop/new@"+plain+" running") // they come before the confirmation
	r.refused(r.call("admin", "POST", "/tasks", use), 404, "")
	r.user = "bo"
	r.refused(r.call("shop", "POST", "/tasks", use), 404, "")
	r.user = ""
	done := r.want(202, r.call("shop", "POST", "/tasks", use)).body
	if done["left_out"] != 2. || done["counts"].(map[string]any)["targets"] != 2. {
		t.Errorf("operation: %v", done)
	}
	results := r.want(200, r.call("shop", "GET", fmt.Sprintf("/tasks/%v/results", done["id"]), nil))
	got := results.items("namespace", "name", "host")
	slices.Sort(got)
	equal(t, got, []string{"shop api 0:10.0.0.2", "shop api web-1"})

	// What the caller may not operate on is named, and blocks all.
	s = choose("shop", "name=api", map[string]any{"op": "restart"})
	equal(t, s["denied"], any([]any{map[string]any{"namespace": "pay", "name": "api", "host": "web-1"}}))
	equal(t, s["namespaces"], any(map[string]any{"pay": 1., "shop": 2.}))
	r.want(403, r.call("shop", "POST", "/tasks", map[string]any{"op": "restart", "selection": s["id"]}))

	// Named processes, and pasted hosts.
	named := map[string]any{"targets": []any{map[string]any{"namespace": "shop", "name": "api", "hosts": []any{"web-1"}}}}
	equal(t, choose("shop", "", named)["targets"], any(1.))
	s = choose("admin", "", map[string]any{"hosts": []any{"web-1", "0:10.0.0.2", "10.9.9.9", "web-1"}})
	if s["targets"] != 7. || fmt.Sprint(s["unknown_hosts"]) != "[10.9.9.9]" {
		t.Errorf("pasted: %v", s)
	}
	page := r.want(200, r.call("admin", "GET", fmt.Sprintf("/processes?count=true&state=stopped&selection=%v", s["id"]), nil))
	equal(t, page.items("name"), []string{"down"})
	equal(t, r.want(200, r.call("admin", "GET", fmt.Sprintf("/selections/%v", s["id"]), nil)).body, s)
	r.want(404, r.call("shop", "GET", fmt.Sprintf("/selections/%v", s["id"]), nil))
	r.want(404, r.call("shop", "GET", fmt.Sprintf("/processes?selection=%v", s["id"]), nil))
	s = choose("admin", "", map[string]any{"hosts": []any{"10.0.0.2", "3:10.0.0.3"}})
	equal(t, s["known_hosts"], any(2.))
	s = choose("shop", "state=starting", map[string]any{})
	equal(t, s["targets"], any(0.))
	r.refused(r.call("shop", "POST", "/tasks", map[string]any{"op": "restart", "selection": s["id"]}), 422, "selection")

	// The selection that it is a part of may end before it.
	whole := choose("shop", "name=web", map[string]any{})
	r.ahead.Store(int64(10 * time.Minute))
	part := choose("shop", fmt.Sprintf("selection=%v", whole["id"]), map[string]any{"op": "restart"})
	r.ahead.Store(int64(16 * time.Minute))
	r.want(404, r.call("shop", "GET", fmt.Sprintf("/selections/%v", whole["id"]), nil))
	done = r.want(202, r.call("shop", "POST", "/tasks", map[string]any{"op": "restart", "selection": part["id"]})).body
	if done["left_out"] != nil || done["counts"].(map[string]any)["targets"] != 1. {
		t.Errorf("operation on a part: %v", done)
	}
	r.want(202, r.call("shop", "POST", "/tasks", map[string]any{
		"op": "restart", "selection": part["id"], "rollout": map[string]any{"batch": 1},
	}))
	r.ahead.Store(0)

	// Its time ends.
	s = choose("shop", "name=web", map[string]any{})
	r.ahead.Store(int64(15 * time.Minute))
	r.refused(r.call("shop", "POST", "/tasks", map[string]any{"op": "restart", "selection": s["id"]}), 404, "")

	r.refused(r.call("shop", "POST", "/selections?sate=x", map[string]any{}), 422, "sate")
	r.refused(r.call("shop", "POST", "/selections", map[string]any{"op": "explode"}), 422, "op")
	for _, field := range []string{"targets", "hosts"} { // not everything
		r.refused(r.call("shop", "POST", "/selections", map[string]any{field: []any{}}), 422, field)
	}
	r.want(201, r.call("shop", "POST", "/selections", map[string]any{"except": []any{}}))
	for _, beside := range []map[string]any{{"processes": []any{"shop/*"}}, {"select": "a=b"}, {"targets": named["targets"]}} {
		beside["op"], beside["selection"] = "restart", "sel-x"
		r.refused(r.call("shop", "POST", "/tasks", beside), 422, "selection")
	}
	r.refused(r.call("shop", "POST", "/tasks", map[string]any{"op": "restart", "selection": "sel-x"}), 404, "")
}

// reads counts how often a part of the handler asks the store.
type reads struct {
	store.Store
	n *atomic.Int64
}

func (s reads) FindSelection(ctx context.Context, id, app, user string, now time.Time) (store.CallerSelection, error) {
	s.n.Add(1)
	return s.Store.FindSelection(ctx, id, app, user, now)
}

func (s reads) ObservedAt(ctx context.Context, keys []store.ObservedKey, spec bool, fn func(store.Observed)) error {
	s.n.Add(1)
	return s.Store.ObservedAt(ctx, keys, spec, fn)
}

func (s reads) ListObserved(ctx context.Context, f store.ObservedFilter, after store.ObservedKey, limit int) (
	[]store.Observed, bool, error,
) {
	s.n.Add(1)
	return s.Store.ListObserved(ctx, f, after, limit)
}

func (s reads) ListOpenItems(ctx context.Context, f store.OpenItemFilter, limit int) ([]store.OpenItem, error) {
	s.n.Add(1)
	return s.Store.ListOpenItems(ctx, f, limit)
}

// TestReadsOfAPage: a page costs one read of its rows, and one more of open operations if it tells causes.
func TestReadsOfAPage(t *testing.T) {
	r := newRig(t)
	r.app("admin")
	r.observe("shop/api@"+web+" running", "shop/api@"+plain+" running", "shop/db@"+web+" running",
		"pay/api@"+web+" running")
	var n atomic.Int64
	r.remake(func(c *api.Config) { c.Listing = reads{r.store, &n} })
	for path, want := range map[string]int64{
		"/processes?sort=host": 1, "/processes?sort=-since&spec=true&count=true": 1,
		"/processes?cause=exit-status": 2, "/processes?group=host": 1, "/overview": 1,
	} {
		n.Store(0)
		r.want(200, r.call("admin", "GET", path, nil))
		equal(t, n.Load(), want)
	}
	n.Store(0)
	r.want(201, r.call("admin", "POST", "/selections", map[string]any{}))
	equal(t, n.Load(), int64(0))
}

// TestSelectionIsReadOnce: a selection never changes, so pages of it read it once; but not for others, nor beyond its
// time.
func TestSelectionIsReadOnce(t *testing.T) {
	r := newRig(t)
	r.app("admin")
	r.app("shop", "query on shop")
	r.observe("shop/api@"+web+" running", "shop/api@"+plain+" running")
	var n atomic.Int64
	r.remake(func(c *api.Config) { c.CallerSelections = reads{r.store, &n} })
	s := r.want(201, r.call("shop", "POST", "/selections?host=web-1", map[string]any{})).body
	for range 3 {
		for _, path := range []string{"/overview?selection=%v", "/processes?selection=%v&sort=host", "/selections/%v"} {
			r.want(200, r.call("shop", "GET", fmt.Sprintf(path, s["id"]), nil))
		}
	}
	page := r.want(200, r.call("shop", "GET", fmt.Sprintf("/processes?selection=%v", s["id"]), nil))
	equal(t, page.items("host.id"), []string{"web-1"})
	equal(t, n.Load(), int64(1))
	r.want(404, r.call("admin", "GET", fmt.Sprintf("/selections/%v", s["id"]), nil))
	r.user = "bo"
	r.want(404, r.call("shop", "GET", fmt.Sprintf("/selections/%v", s["id"]), nil))
	r.user = ""
	r.ahead.Store(int64(15 * time.Minute))
	r.want(404, r.call("shop", "GET", fmt.Sprintf("/selections/%v", s["id"]), nil))
}

// TestSelectionsOfInventedUsers: the selections of a user count alone if the user is proven. Otherwise they count with
// those of all users of the app.
func TestSelectionsOfInventedUsers(t *testing.T) {
	r := newRig(t)
	r.app("shop", "query on shop")
	r.observe("shop/api@" + web + " running")
	hold := func() string {
		return r.want(201, r.call("shop", "POST", "/selections", map[string]any{})).body["id"].(string)
	}
	kept := func(user, id string, status int) {
		t.Helper()
		r.user = user
		r.want(status, r.call("shop", "GET", "/selections/"+id, nil))
	}
	of := func(user string, n int) (id string) { // the first of n
		r.user = user
		for i := range n {
			if last := hold(); i == 0 {
				id = last
			}
		}
		return id
	}
	bo := of("bo", 20)
	cy := of("cy", 1)
	kept("bo", bo, 200)
	r.remake(func(*api.Config) {}) // it remembers what it was asked for
	of("bo", 1)
	kept("bo", bo, 404)
	of("", 98) // anna is not proven
	kept("cy", cy, 200)
	r.remake(func(*api.Config) {})
	of("", 1)
	kept("cy", cy, 404)
}

// TestSharedOverview: callers with equal rights share an overview for a while, and callers with others do not.
func TestSharedOverview(t *testing.T) {
	r := newRig(t)
	r.remake(func(c *api.Config) { c.SharedFor = time.Minute })
	r.app("admin")
	r.app("shop", "query on shop")
	r.app("shop2", "query on shop")
	r.app("pay", "query on pay")
	total := func(app, query string) any {
		return r.want(200, r.call(app, "GET", "/overview"+query, nil)).body["processes"].(map[string]any)["total"]
	}
	r.observe("shop/api@" + web + " running")
	equal(t, total("shop", ""), any(1.))
	r.observe("shop/web@"+web+" running", "pay/api@"+web+" running")
	for _, tt := range []struct {
		app, query string
		want       float64
	}{{"shop", "", 1}, {"shop2", "", 1}, {"shop", "?state=running", 2}, {"pay", "", 1}, {"admin", "", 3}} {
		equal(t, total(tt.app, tt.query), any(tt.want))
	}
	r.ahead.Store(int64(time.Minute))
	equal(t, total("shop2", ""), any(2.))
}
