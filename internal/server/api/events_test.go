package api_test

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"drover/internal/process"
	"drover/internal/server/bus"
	"drover/internal/server/store/storetest"
)

// happen stores events, given as "namespace/name@KEY kind seconds", the seconds counted from 2026-11-20T10:00:00Z, and
// wakes who listens.
func (r *rig) happen(rows ...string) {
	r.t.Helper()
	for _, row := range rows {
		parts := strings.Fields(row)
		id, key, _ := strings.Cut(parts[0], "@")
		namespace, name, _ := strings.Cut(id, "/")
		seconds, err := time.ParseDuration(parts[2] + "s")
		r.must(err)
		r.numbers++
		r.put(key, process.Event{
			Stream: "s", Seq: r.numbers, At: morning().Add(seconds).UnixMilli(), Kind: process.EventKind(parts[1]),
			Process: process.ID{Namespace: namespace, Name: name},
		})
	}
	r.bus.Changed(bus.Events)
}

func (r *rig) put(key string, events ...process.Event) {
	r.t.Helper()
	_, err := r.store.PutEvents(r.t.Context(), key, morning(), storetest.NewEvents(events...))
	r.must(err)
}

func morning() time.Time { return time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC) }

func TestEvents(t *testing.T) {
	r := newRig(t)
	r.app("admin")
	r.happen("a/x@"+web+" started 1", "a/x@"+plain+" exited 5", "b/y@"+web+" exited 3", "b/z/w@"+gone+" given-up 2",
		"/@"+web+" events-lost 9")
	list := func(query string) []string {
		return r.want(200, r.call("admin", "GET", "/events"+query, nil)).items("kind", "namespace", "name", "host.id")
	}
	all := []string{
		"events-lost   web-1", "exited a x 0:10.0.0.2", "exited b y web-1", "given-up b z/w 3:10.0.0.3",
		"started a x web-1",
	}
	same(t, "all", all, list(""))
	for query, want := range map[string][]string{
		"?namespace=a":                   {all[1], all[4]},
		"?namespace=a&name=x&host=web-1": {all[4]},
		"?namespace=a&namespace=b":       all[1:],
		"?namespace=*&name=?":            {all[1], all[2], all[4]},
		"?host=0:*":                      {all[0], all[1], all[2], all[4]},
		"?host=0:10.0.0.1":               {all[0], all[2], all[4]},
		"?host=nobody":                   nil,
		"?kind=exited":                   all[1:3],
		"?kind=exited&kind=given-up":     all[1:4],
		"?since=2026-11-20T10:00:03Z":    all[:3],
		"?until=2026-11-20T10:00:03Z":    all[3:],
		"?since=2026-11-20T11:00:02%2B01:00&until=2026-11-20T10:00:05Z": all[2:4],
		"?namespace=none": nil,
	} {
		same(t, query, want, list(query))
	}
	for _, limit := range []int{1, 2, 4, 5} {
		var walked []string
		query := url.Values{"limit": {fmt.Sprint(limit)}}
		for {
			a := r.want(200, r.call("admin", "GET", "/events?"+query.Encode(), nil))
			if a.body["last"].(float64) != 5 {
				t.Errorf("the last one is %v", a.body["last"])
			}
			walked = append(walked, a.items("kind", "namespace", "name", "host.id")...)
			if a.cursor() == "" {
				break
			}
			query.Set("cursor", a.cursor())
		}
		same(t, "pages", all, walked)
	}
	for query, field := range map[string]string{
		"kind=eaten": "kind", "kind=": "kind", "since=today": "since", "until=1": "until", "limit=0": "limit",
		"cursor=x":      "cursor",
		"name=a&name=b": "name", "agent=x": "agent", "after=1": "after",
	} {
		r.refused(r.call("admin", "GET", "/events?"+query, nil), 422, field)
	}
}

// TestEventInFull: nothing of an event is kept back.
func TestEventInFull(t *testing.T) {
	r := newRig(t)
	r.app("admin")
	r.put(web, process.Event{
		Stream: "s", Seq: 1, At: 1_700_000_000_123, Process: process.ID{Namespace: "a", Name: "x"},
		Kind: process.EventBreach,
		From: "running", To: "operating", PID: 7, RunTime: 1500, Output: "<out>\n", Attempt: 2,
		Cause: process.Cause{
			ID: process.CauseMemLimit, Text: "too much", Evidence: []string{"e"},
			Since: 1_700_000_000_000,
		},
		Actor: process.Actor{Kind: process.ActorCaller, App: "app", User: "u", Operation: "o"},
		Exit:  &process.Exit{Known: true, Code: 1, Signal: 9, Core: true, OOM: true, Peak: 5 << 20, At: 1_700_000_000_001},
		Breach: &process.Breach{
			Resource: "mem", Limit: 1.5, Samples: []float64{2, 3}, Group: "g",
			Scores: []process.Score{{Process: process.ID{Namespace: "a", Name: "x"}, Usage: 3, Limit: 4, Score: 75}},
		},
	})
	a := r.want(200, r.call("admin", "GET", "/events", nil))
	same(t, "an event", map[string]any{
		"cursor": 1.0, "at": "2023-11-14T22:13:20.123Z", "received_at": "2026-11-20T10:00:00Z", "namespace": "a",
		"name": "x",
		"host": map[string]any{"id": "web-1", "cloud": 0.0, "ip": "10.0.0.1", "online": true},
		"kind": "limit-exceeded", "from": "running", "to": "operating", "pid": 7.0, "run_seconds": 1.5,
		"output": "<out>\n", "attempt": 2.0,
		"cause": map[string]any{
			"id": "memory-limit", "text": "too much", "evidence": []any{"e"},
			"since": "2023-11-14T22:13:20Z",
		},
		"actor": map[string]any{"kind": "caller", "app": "app", "user": "u", "operation": "o"},
		"exit": map[string]any{
			"known": true, "code": 1.0, "signal": 9.0, "core": true, "oom": true, "peak_memory": 5242880.0,
			"at": "2023-11-14T22:13:20.001Z",
		},
		"breach": map[string]any{
			"resource": "mem", "limit": 1.5, "samples": []any{2.0, 3.0}, "group": "g",
			"scores": []any{map[string]any{
				"process": map[string]any{"namespace": "a", "name": "x"}, "usage": 3.0,
				"limit": 4.0, "score": 75.0,
			}},
		},
	}, a.body["items"].([]any)[0])
}

// TestEventsOfOthers: who may not query a process does not hear of it, and who may not read of a host not of that.
func TestEventsOfOthers(t *testing.T) {
	r := newRig(t)
	r.app("admin")
	r.app("a-only", "query on a")
	r.app("area-3", "query on * at area:3")
	r.app("hosts", "read-agents on *")
	r.app("nothing", "start on a")
	r.happen("a/x@"+web+" exited 1", "b/y@"+web+" exited 2", "b/z@"+gone+" exited 3", "/@"+web+" events-lost 4",
		"a/v@KEYFORGOTTEN exited 5")
	for app, want := range map[string][]string{
		"admin":   {"a v", " ", "b z", "b y", "a x"},
		"a-only":  {"a v", "a x"},
		"area-3":  {"b z"},
		"hosts":   {" "},
		"nothing": nil,
	} {
		var got []string
		for _, limit := range []string{"1", "100"} {
			got = nil
			query := url.Values{"limit": {limit}}
			for {
				a := r.want(200, r.call(app, "GET", "/events?"+query.Encode(), nil))
				got = append(got, a.items("namespace", "name")...)
				if a.cursor() == "" {
					break
				}
				query.Set("cursor", a.cursor())
			}
			same(t, app+" in pages of "+limit, want, got)
		}
	}
	r.want(401, r.call("nobody", "GET", "/events", nil))
}
