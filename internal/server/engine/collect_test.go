//nolint:thelper // what runs in a bubble is the test itself
package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"drover/internal/process"
	"drover/internal/server/engine"
	"drover/internal/server/fleet"
	"drover/internal/server/store"
	"drover/internal/spec"
	"drover/internal/wire"
)

func observation(name string, pid int) wire.Observation {
	return wire.Observation{
		Process: process.ID{Namespace: "ns", Name: name},
		Status:  process.Status{Known: true, State: "up", Instance: process.Instance{PID: pid}},
		Spec:    &process.Spec{ProcessName: name, Compat: &spec.Compat{}},
	}
}

// observed returns the pids of the processes that the store knows, by name.
func (r *rig) observed() map[string]int {
	r.t.Helper()
	rows, _, err := r.db.PageObserved(r.t.Context(), "ns", 0, 100)
	if err != nil {
		r.t.Fatal(err)
	}
	pids := map[string]int{}
	for _, o := range rows {
		pids[o.Process.Name] = o.Status.Instance.PID
	}
	return pids
}

func TestHello(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		if ack := r.report("agent-0", wire.Report{}); !ack.Hello || ack.Error != "" {
			t.Errorf("an agent that this server does not know got %+v", ack)
		}
		hello := wire.Report{
			Hello:    &wire.Hello{IP: "10.0.0.9", ID: "id-0", Build: "1.2"},
			Observed: []wire.Observation{observation("a", 1), observation("b", 2)},
		}
		if ack := r.report("agent-0", hello); ack.Hello || ack.Error != "" {
			t.Errorf("the introduction got %+v", ack)
		}
		a, ok := r.directory.LookupID("id-0")
		if !ok || a.Key != "agent-0" || a.IP != "10.0.0.9" || a.Build != "1.2" {
			t.Errorf("the register has %+v", a)
		}
		changed := observation("a", 11)
		changed.Spec = nil
		r.report("agent-0", wire.Report{Observed: []wire.Observation{changed, observation("c", 3)}})
		r.report("agent-0",
			wire.Report{Observed: []wire.Observation{{Process: process.ID{Namespace: "ns", Name: "b"}, Gone: true}}})
		if d := cmp.Diff(map[string]int{"a": 11, "c": 3}, r.observed()); d != "" {
			t.Error(d)
		}
		hello.Observed = hello.Observed[:1]
		r.report("agent-0", hello)
		if d := cmp.Diff(map[string]int{"a": 1}, r.observed()); d != "" {
			t.Error(d)
		}
		r.directory.RecordLinkLost("agent-0", time.Now())
		if ack := r.report("agent-0", wire.Report{}); !ack.Hello {
			t.Error("an agent that came back was not asked to introduce itself")
		}
	})
}

func TestHelloCannotTakeAnothersPlace(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.report("agent-1", wire.Report{})
		ack := r.report("agent-0", wire.Report{
			Hello:    &wire.Hello{IP: "10.0.0.1"},
			Observed: []wire.Observation{observation("a", 1)},
		})
		if ack.Error != "" || ack.Hello {
			t.Errorf("the agent is stuck: %+v", ack)
		}
		if a, _ := r.directory.Lookup(0, "10.0.0.1"); a.Key != "agent-1" {
			t.Errorf("the address leads to %q", a.Key)
		}
		r.report("agent-0", wire.Report{Hello: &wire.Hello{Cloud: 7, IP: "10.7.0.1"}})
		if _, ok := r.directory.Lookup(7, "10.7.0.1"); ok {
			t.Error("an agent moved itself to another area")
		}
	})
}

func TestHelloOfAnUnknownAgent(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.report("agent-9", wire.Report{Hello: &wire.Hello{Cloud: 2, IP: "fe80::9"}})
		if a, _ := r.directory.LookupID("2:fe80::9"); a.Key != "agent-9" || a.Created.IsZero() {
			t.Errorf("the register has %+v", a)
		}
	})
}

func TestReturningAgentIsReminded(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.submit("t", process.Start, "agent-0")
		accepted := r.takenOne()
		r.report("agent-0", wire.Report{Hello: &wire.Hello{IP: "10.0.0.0"}})
		if o := r.takenOne(); o.Item != accepted.Item {
			t.Errorf("reminded of %s, want %s", o.Item, accepted.Item)
		}
		r.answer(silence) // a reminder that is lost changes nothing
		r.report("agent-0", wire.Report{Hello: &wire.Hello{IP: "10.0.0.0"}})
		r.pass(30 * time.Second)
		if n := len(r.taken()); n != 1 {
			t.Errorf("%d reminders were sent, want 1", n)
		}
		r.progress("agent-0", wire.Progress{Item: accepted.Item, Limit: 60})
		r.report("agent-0", wire.Report{Hello: &wire.Hello{IP: "10.0.0.0"}})
		if n := len(r.taken()); n != 0 {
			t.Error("an operation that has begun was sent again")
		}
	})
}

func TestReportsOfAnotherAgent(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.submit("t", process.Start, "agent-0")
		r.finish("agent-1", r.takenOne().Item)
		r.shows("t", "")
	})
}

func TestBadReports(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		for _, data := range []string{"", "{", `[]`, `{"progress":{}}`, strings.Repeat(" ", wire.MaxMessage+1)} {
			reply := string(r.HandleReport(t.Context(), "agent-0", []byte(data), time.Now()))
			if !strings.Contains(reply, `"error":"cannot read report`) {
				t.Errorf("%.20q was answered with %s", data, reply)
			}
		}
	})
}

// TestOnlyServersTellOfBreakers: an agent cannot make an alarm of the fleet up.
func TestOnlyServersTellOfBreakers(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		var events []process.Event
		for i, kind := range []process.EventKind{
			process.EventBreakerOpened, process.EventBreakerClosed, process.EventFlapping,
		} {
			events = append(events, process.Event{
				Stream: "s", Seq: uint64(i + 1), At: time.Now().UnixMilli(), Kind: kind,
				Process: process.ID{Namespace: "ns", Name: "nginx"},
			})
		}
		if ack := r.report("agent-0", wire.Report{Events: lines(events...)}); ack.Error != "" {
			t.Fatal(ack.Error)
		}
		stored, _, err := r.db.EventsAfter(t.Context(), 0, store.EventFilter{}, 100)
		if err != nil || len(stored) != 1 || stored[0].Event.Kind != process.EventFlapping {
			t.Errorf("stored are %+v, %v", stored, err)
		}
	})
}

// brokenStore fails the writes of reports.
type brokenStore struct {
	engine.Store
	err error
}

func (s brokenStore) PutObserved(context.Context, store.ReportMark, []store.Observed, []store.Removal) error {
	return s.err
}

func (s brokenStore) ReplaceObserved(context.Context, store.ReportMark, []store.Observed, []process.ID) (bool, error) {
	return false, s.err
}

func (s brokenStore) Begin(context.Context, string, map[string]time.Time) error { return s.err }

func (s brokenStore) Finish(context.Context, []store.ReportedOutcome) ([]string, error) {
	return nil, s.err
}

func (s brokenStore) PutEvents(context.Context, string, time.Time, []store.NewEvent) (int, error) {
	return 0, s.err
}

func (s brokenStore) CreateTask(context.Context, *store.Task, store.AuditRow, time.Time, int) ([]store.Item, error) {
	return nil, s.err
}

func TestNothingIsAcknowledgedThatIsNotStored(t *testing.T) {
	broken := brokenStore{err: errors.New("disk full")}
	e := engine.New(engine.Config{
		Store: broken, Directory: fleet.New(nil, time.Now()),
		Log: slog.New(slog.DiscardHandler),
	})
	for _, report := range []string{
		`{"progress":[{"item":"1","limit":5}]}`,
		`{"progress":[{"item":"1","outcome":{"text":"success"}}]}`,
		`{"observed":[{"process":{"name":"a"}}]}`,
		"{}\n" + `{"stream":"s","seq":1,"kind":"exited","at":9007199254740991}`,
	} {
		if reply := string(e.HandleReport(t.Context(), "x", []byte(report), time.Now())); !strings.Contains(reply,
			"disk full") {
			t.Errorf("%s was answered with %s", report, reply)
		}
	}
	if err := e.Submit(t.Context(), &store.Task{}, store.AuditRow{}); !errors.Is(err, broken.err) {
		t.Errorf("the task was taken: %v", err)
	}
}

func FuzzHandleReport(f *testing.F) {
	for _, seed := range []string{
		`{}`,
		`{"version":1,"hello":{"cloud":0,"ip":"10.0.0.1"},"observed":[{"process":{"namespace":"a","name":"b"},"gone":true}]}`,
		`{"progress":[{"item":"x","limit":9223372036854775807},{"item":"y","outcome":{"fault":"failed","text":"no"}}]}`,
		`null`, `{"hello":{}}`,
		"{}\n" + `{"stream":"s","seq":1,"at":-1,"kind":"exited","breach":{"samples":[1e308]}}` + "\n" + `{"seq":2}`,
	} {
		f.Add([]byte(seed))
	}
	s := brokenStore{err: fs.ErrInvalid}
	f.Fuzz(func(t *testing.T, data []byte) {
		e := engine.New(engine.Config{
			Store: s, Directory: fleet.New(discard{}, time.Now()),
			Log: slog.New(slog.DiscardHandler),
		})
		if reply := e.HandleReport(t.Context(), "x", data, time.Now()); !strings.HasPrefix(string(reply), `{"version":1`) {
			t.Errorf("the answer is %s", reply)
		}
	})
}

// discard is a register that keeps nothing.
type discard struct{ store.Agents }

func (discard) PutAgent(context.Context, store.Agent) error { return nil }

// TestLongTexts: of what an agent has not cut the server keeps the two ends.
func TestLongTexts(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.submit("t", process.Query, "agent-0")
		item := r.takenOne().Item
		long := "begin" + strings.Repeat("é", 70<<10) + "end"
		status := process.Status{
			Message: long, Instance: process.Instance{Cmdline: "short"}, Cause: process.Cause{
				ID:   process.CauseID(long),
				Text: long, Evidence: []string{long},
			},
			Health: &process.Answer{Text: long}, Runs: []process.Run{{Output: long}},
			Config: []process.Drift{{Path: long}},
		}
		r.report("agent-0", wire.Report{
			Observed: []wire.Observation{{
				Process: process.ID{Namespace: "ns", Name: "nginx"}, Status: status,
				Spec: &process.Spec{},
			}},
		})
		r.report("agent-0", wire.Report{
			Progress: []wire.Progress{{Item: item, Outcome: &process.Outcome{
				Fault: process.Failed, Text: long,
				Status: &process.Status{Message: long},
			}}},
		})
		check := func(what, text string) {
			t.Helper()
			const most = 129 << 10
			if len(text) > most || !strings.HasPrefix(text, "begin") || !strings.HasSuffix(text, "end") ||
				!strings.Contains(text, "bytes were left out") || !utf8.ValidString(text) {
				t.Errorf("%s has %d bytes: %.20q … %q", what, len(text), text, text[max(0, len(text)-20):])
			}
		}
		err := r.db.TaskItems(t.Context(), "t", "", func(v store.ItemView) error {
			check("outcome", v.Outcome.Text)
			check("status of the outcome", v.Outcome.Status.Message)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		err = r.db.GetObserved(t.Context(), process.ID{Namespace: "ns", Name: "nginx"}, []string{"agent-0"},
			func(o store.Observed) error {
				check("state", o.Status.Message)
				text, err := json.Marshal(o.Status)
				if err != nil || len(text) > 200<<10 || o.Status.Cause.Evidence[0] == "" ||
					o.Status.Runs[0].Output == "" {
					t.Errorf("the state takes %d bytes (%v)", len(text), err)
				}
				if o.Status.Instance.Cmdline != "short" {
					t.Errorf("command line %q", o.Status.Instance.Cmdline)
				}
				return nil
			})
		if err != nil {
			t.Fatal(err)
		}
	})
}
