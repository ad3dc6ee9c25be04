package ui

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
	"github.com/google/go-cmp/cmp"

	v1 "drover/api/v1"
	"drover/internal/words"
)

var update = flag.Bool("update", false, "write the frames to testdata/frames")

// noon is the time of the tests.
var noon = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

func TestMain(m *testing.M) {
	time.Local = time.UTC
	os.Exit(m.Run())
}

func before(d time.Duration) *time.Time {
	t := noon.Add(-d)
	return &t
}

// fleet is a process in some states, each on a host of its own.
func fleet() (all []any) {
	for i, state := range []string{"given-up", "running", "running", "stopped", "running"} {
		p := v1.Process{
			Namespace: "shop", Name: "api", State: state, Hosted: true,
			Host: v1.Host{ID: fmt.Sprintf("0:10.0.0.%d", i+7), IP: fmt.Sprintf("10.0.0.%d", i+7), Online: true},
		}
		switch {
		case state == "given-up":
			p.Restarts = 5
			p.Cause = &v1.Cause{ID: "out-of-memory", Text: "out of memory, 512 MiB of 512 MiB", Since: before(12 * time.Minute)}
		case i == 2:
			p.Name = "网关"
		case i == 4:
			p.Stale, p.Host.Online, p.Host.LastSeen = true, false, before(4*time.Minute)
		}
		if state == "running" {
			p.Instance = &v1.Instance{PID: 8812 + i, CPU: 3, RSS: 211 << 20, StartedAt: before(4 * time.Hour)}
		}
		all = append(all, p)
	}
	return all
}

// many are running processes on hosts of their own.
func many(n int) (all []any) {
	for i := range n {
		all = append(all, v1.Process{
			Namespace: "shop", Name: "web", State: "running",
			Host: v1.Host{ID: fmt.Sprintf("0:10.1.0.%d", i+1), Online: true},
		})
	}
	return all
}

// rig plays a person and a server against Update.
type rig struct {
	t     *testing.T
	state State
	done  []Do
}

func begin(t *testing.T, width, height int, s State) *rig {
	t.Helper()
	s.server, s.user, s.suffix = "drover:7350", "anna", " --server https://drover:7350"
	r := &rig{t: t}
	r.state, r.done = Begin(s, "", noon)
	r.send(tea.WindowSizeMsg{Width: width, Height: height})
	return r
}

func (r *rig) send(msg tea.Msg) *rig {
	r.t.Helper()
	former := r.state
	frame := View(former)
	var do []Do
	r.state, do = Update(former, msg)
	r.done = append(r.done, do...)
	if View(former) != frame {
		r.t.Fatalf("%T changed the former state", msg)
	}
	r.check()
	return r
}

// check fails if a line of the frame is not exactly as wide as the screen, or moves the cursor.
func (r *rig) check() {
	r.t.Helper()
	lines := strings.Split(View(r.state), "\n")
	if r.state.width >= 20 && len(lines) != r.state.height {
		r.t.Fatalf("%d lines, want %d:\n%s", len(lines), r.state.height, View(r.state))
	}
	for _, l := range lines {
		plain := ansi.Strip(l)
		if strings.ContainsFunc(plain, unicode.IsControl) {
			r.t.Fatalf("a line holds a control character: %q", l)
		}
		if n := ansi.StringWidthWc(plain); r.state.width >= 20 && n != r.state.width {
			r.t.Fatalf("%q is %d cells wide, want %d", l, n, r.state.width)
		}
	}
}

// press presses keys: names such as "enter", or single characters.
func (r *rig) press(keys ...string) *rig {
	r.t.Helper()
	for _, key := range keys {
		k := tea.Key{Text: key, Code: []rune(key)[0]}
		switch key {
		case "enter":
			k = tea.Key{Code: tea.KeyEnter}
		case "esc":
			k = tea.Key{Code: tea.KeyEscape}
		case "tab":
			k = tea.Key{Code: tea.KeyTab}
		case "down":
			k = tea.Key{Code: tea.KeyDown}
		case "end":
			k = tea.Key{Code: tea.KeyEnd}
		case "space":
			k = tea.Key{Code: tea.KeySpace, Text: " "}
		case "ctrl+c":
			k = tea.Key{Code: 'c', Mod: tea.ModCtrl}
		case "ctrl+z":
			k = tea.Key{Code: 'z', Mod: tea.ModCtrl}
		case "ctrl+u":
			k = tea.Key{Code: 'u', Mod: tea.ModCtrl}
		}
		if k.String() != key {
			r.t.Fatalf("the key %q is %q", key, k.String())
		}
		r.send(tea.KeyPressMsg(k))
	}
	return r
}

// typing presses a key for each character.
func (r *rig) typing(text string) *rig {
	r.t.Helper()
	for _, c := range text {
		key := string(c)
		if c == ' ' {
			key = "space"
		}
		r.press(key)
	}
	return r
}

// asked is the last question; it fails the test if there was none.
func asked[T any](r *rig) T {
	r.t.Helper()
	for _, d := range slices.Backward(r.done) {
		if a, ok := d.(T); ok {
			return a
		}
	}
	r.t.Fatalf("nobody asked: %+v", r.done)
	panic("unreachable")
}

// answer answers the last question with items.
func (r *rig) answer(items ...any) *rig {
	r.t.Helper()
	counts := &v1.ProcessCounts{States: map[string]int{"given-up": 1, "running": 2, "stopped": 1}, Stale: 1, Total: 5}
	if asked[Ask](r).place.kind != processes {
		counts = nil
	}
	return r.send(Listed{Number: asked[Ask](r).Number, At: noon, Items: items, Counts: counts, Wrong: 1})
}

// frames are what the screen shows in turn, with the name of the golden.
func frames() map[string]func(t *testing.T) *rig {
	wide := func(t *testing.T, s State) *rig { t.Helper(); return begin(t, 110, 16, s) }
	return map[string]func(t *testing.T) *rig{
		"asking": func(t *testing.T) *rig { return wide(t, State{}) },
		"list":   func(t *testing.T) *rig { return wide(t, State{}).answer(fleet()...) },
		"list-zh": func(t *testing.T) *rig {
			return wide(t, State{lang: words.Chinese}).answer(fleet()...)
		},
		"list-80": func(t *testing.T) *rig { return begin(t, 80, 16, State{}).answer(fleet()...) },
		"list-60": func(t *testing.T) *rig { return begin(t, 60, 16, State{}).answer(fleet()...) },
		"list-30": func(t *testing.T) *rig { return begin(t, 30, 16, State{}).answer(fleet()...) },
		"none":    func(t *testing.T) *rig { return wide(t, State{}).answer() },
		"refused": func(t *testing.T) *rig {
			r := wide(t, State{})
			return r.send(Listed{Number: asked[Ask](r).Number, At: noon, Refused: "you may not query shop"})
		},
		"lost": func(t *testing.T) *rig {
			r := wide(t, State{coloured: true}).answer(fleet()...).send(Tick(noon.Add(10 * time.Second)))
			return r.send(Listed{Number: asked[Ask](r).Number, At: noon.Add(11 * time.Second), Away: errors.New("refused")})
		},
		"wrong": func(t *testing.T) *rig {
			return wide(t, State{}).answer(fleet()...).press("ctrl+z").answer(fleet()[0])
		},
		"filter": func(t *testing.T) *rig {
			return wide(t, State{}).answer(fleet()...).press("/").typing("shop/* --stat up").press("enter")
		},
		"jump": func(t *testing.T) *rig { return wide(t, State{}).press(":").typing("hos") },
		"hosts": func(t *testing.T) *rig {
			return wide(t, State{}).press(":").typing("hosts").press("enter").answer(v1.JoinedHost{
				Host: v1.Host{ID: "0:10.0.0.7", IP: "10.0.0.7", Online: true, LastSeen: before(time.Second)}, Name: "web-7",
				Build: "1.2.0", Labels: map[string]string{"role": "web", "env": "prod"}, Notes: []string{"the clock is 3 s off"},
			})
		},
		"tasks": func(t *testing.T) *rig {
			return wide(t, State{}).press("t").answer(v1.Task{
				ID: "op-x7k2m9q4w1zd", Op: "restart", Subject: "shop/api", Requests: 3, State: "running", User: "anna",
				CreatedAt: *before(time.Minute), Counts: v1.Counts{Targets: 213, OK: 157, Failed: 2, Pending: 54},
			})
		},
		"rollout": func(t *testing.T) *rig {
			r := v1.Rollout{
				ID: "r-81", Op: "restart", Processes: []string{"shop/api"}, State: "paused", Reason: "3 failures of 3", Batch: 1,
				Counts: v1.RolloutCounts{Hosts: 3, OK: 1, Failed: 1, Waiting: 1}, CreatedAt: noon,
			}
			whole := r
			whole.Hosts = []v1.RolloutHost{{Host: "0:10.0.0.7", State: "ok"}, {Host: "0:10.0.0.8", Batch: 1, State: "failed", Message: "no answer on 8080"}}
			return wide(t, State{}).press(":").typing("rollouts").press("enter").answer(r).press("enter").answer(whole)
		},
		"event": func(t *testing.T) *rig {
			e := v1.Event{
				Cursor: 7, At: noon, Host: v1.Host{ID: "0:10.0.0.7"}, Namespace: "shop", Name: "api", Kind: "exited",
				From: "running", To: "backoff", Cause: &v1.Cause{ID: "exit-status", Text: "exit status 3"},
				EventDetail: v1.EventDetail{PID: 8812, Exit: &v1.Exit{Known: true, Code: 3}, RunSeconds: 251, Output: "panic: no\nbye"},
			}
			return wide(t, State{}).press("e").answer(e).press("enter")
		},
		// Who did it stays on a narrow screen, whatever else happened.
		"events-80": func(t *testing.T) *rig {
			one := v1.Event{
				Cursor: 7, At: noon, Host: v1.Host{ID: "0:10.0.0.7"}, Namespace: "shop", Name: "api", Kind: "exited",
				From: "running", To: "backoff", Cause: &v1.Cause{ID: "exit-status", Text: "exit status 3"},
			}
			other := one
			other.Cursor, other.Kind, other.From, other.To = 8, "leftovers-ended", "running", "running"
			other.Actor = v1.Actor{Kind: "operation", User: "anna", Reason: "undo of rollout ro-abcdefghijklm"}
			return begin(t, 80, 16, State{}).press("e").answer(other, one)
		},
		"event-zh": func(t *testing.T) *rig {
			e := v1.Event{
				Cursor: 7, At: noon, Host: v1.Host{ID: "0:10.0.0.7"}, Namespace: "shop", Name: "api", Kind: "exited",
				From: "running", To: "backoff",
				Cause:       &v1.Cause{ID: "exit-status", Text: "pid 8812 exit status 3 at 2026-11-21T10:02:00Z"},
				EventDetail: v1.EventDetail{PID: 8812, Exit: &v1.Exit{Known: true, Code: 3}},
			}
			return begin(t, 80, 16, State{lang: words.Chinese}).press("e").answer(e).press("enter")
		},
		"rollout-zh": func(t *testing.T) *rig {
			r := v1.Rollout{
				ID: "r-81", Op: "restart", Processes: []string{"shop/api"}, State: "paused", CreatedAt: noon,
				Counts: v1.RolloutCounts{Hosts: 1, Failed: 1},
			}
			whole := r
			whole.Failures = []v1.RolloutFailure{{
				Cause: "check-failed", Hosts: []string{"0:10.0.0.7"},
				Message: "restart process (api) failed, for post-check status not alive",
			}}
			return begin(t, 80, 16, State{lang: words.Chinese}).press(":").typing("rollouts").press("enter").answer(r).press("enter").answer(whole)
		},
		"why-zh": func(t *testing.T) *rig {
			p := fleet()[0].(v1.Process)
			const died = "pid 7 killed by signal 9 by the kernel, out of memory, at 10:02"
			cause := v1.Cause{ID: "out-of-memory", Text: died, Evidence: []string{"its memory had grown to 512 MiB at most"}}
			return begin(t, 80, 20, State{lang: words.Chinese}).answer(fleet()...).press("w").answer(v1.Why{
				Findings: []v1.Finding{{
					Namespace: "shop", Name: "api", Host: p.Host, Wrong: true, Severity: "critical", Cause: cause,
					Impact: "it is down until somebody starts or retries it",
				}},
				Causes: []v1.CauseCount{{ID: cause.ID, Remedy: "Raise the limit."}},
			})
		},
		"describe": func(t *testing.T) *rig {
			return begin(t, 80, 24, State{}).answer(fleet()...).press("down", "d").answer(fleet()[1], history())
		},
		"why": func(t *testing.T) *rig {
			p := fleet()[0].(v1.Process)
			cause := *p.Cause
			cause.Evidence = []string{"last words:\npanic: cannot allocate"}
			return begin(t, 60, 20, State{}).answer(fleet()...).press("w").answer(v1.Why{
				Findings: []v1.Finding{{
					Namespace: "shop", Name: "api", Host: p.Host, Wrong: true, Severity: "critical", Cause: cause,
					Impact: "it stays down until somebody starts it",
				}},
				Causes: []v1.CauseCount{{ID: cause.ID, Remedy: "Raise the limit with `drover edit`, or find out what takes the memory."}},
			})
		},
		"log": func(t *testing.T) *rig {
			r := wide(t, State{}).answer(fleet()...).press("l")
			r.send(LogRead{Number: asked[ReadLog](r).Number, Lines: []LogLine{{0, "10:02:10 panic: cannot allocate"}, {0, "10:02:11 \x1b[2J网关"}}})
			r.press("p")
			return r.send(LogRead{Number: asked[ReadLog](r).Number, Lines: []LogLine{{0, "10:01:00 of the run before"}}, Ended: true})
		},
		"dialog": func(t *testing.T) *rig {
			return wide(t, State{}).answer(fleet()...).press("end", "space", "k", "space", "r")
		},
		"dialog-21": func(t *testing.T) *rig {
			r := wide(t, State{}).answer(many(21)...)
			for range 21 {
				r.press("space")
			}
			return r.press("s", "2")
		},
		"dialog-all": func(t *testing.T) *rig {
			r := wide(t, State{}).answer(fleet()...).press("/").typing("shop/* --state running").press("enter")
			r.answer(fleet()...).press("*", "r")
			return r.send(Chosen{Op: "restart", all: asked[Choose](r).all, Selection: v1.Selection{
				Targets: 213, Hosts: 200, Away: 4,
				Sample: []v1.SelectedProcess{{Namespace: "shop", Name: "api", Host: "0:10.0.0.8"}},
			}})
		},
		"dialog-batches": func(t *testing.T) *rig {
			r := begin(t, 80, 24, State{}).answer(many(3)...).press("space", "space", "r", "b", "ctrl+u")
			return r.typing("--batch 1 --bake 30s").press("enter")
		},
		"dialog-undo-zh": func(t *testing.T) *rig {
			r := begin(t, 60, 20, State{lang: words.Chinese}).press(":").typing("rollouts").press("enter")
			return r.answer(v1.Rollout{
				ID: "r-82", Op: "apply", Processes: []string{"shop/api"}, State: "paused", Reason: "3 failures of 3",
				Counts: v1.RolloutCounts{Hosts: 40, OK: 2, Failed: 3, Waiting: 35},
			}).press("u")
		},
		"results": func(t *testing.T) *rig {
			r := begin(t, 80, 16, State{}).press("t").answer(doneTask()).press("enter")
			task := doneTask()
			return r.send(Listed{Number: asked[Ask](r).Number, At: noon, Task: &task, Items: []any{v1.Result{
				Namespace: "shop", Name: "api", Host: "0:10.0.0.7", Op: "restart", Outcome: "failed", Message: "no answer on 8080",
			}}})
		},
		"people": func(t *testing.T) *rig {
			return begin(t, 80, 16, State{}).press(":").typing("admin").press("enter").answer(colleagues()...)
		},
		"person-zh": func(t *testing.T) *rig {
			r := begin(t, 80, 16, State{lang: words.Chinese}).press(":").typing("people").press("enter").answer(colleagues()...)
			return r.press("down", "enter").answer(colleagues()[1]).press("+")
		},
		"token": func(t *testing.T) *rig {
			r := begin(t, 80, 16, State{}).press(":").typing("hosts").press("enter").answer().press("+").press("enter")
			return r.send(Added{place: place{kind: secret, text: []string{"Join token", "", "echo abc | drover-agent join"}}})
		},
		"audit": func(t *testing.T) *rig {
			return wide(t, State{lang: words.Chinese}).press(":").typing("audit").press("enter").answer(
				v1.AuditRow{
					At: noon, User: "anna", App: "drover-console", Remote: "10.0.0.2", RequestID: "1", Action: "tasks.create",
					Target: "shop/api", Allowed: true, Detail: []byte(`{"ops":{"stop":1}}`), Reason: "memory test",
				},
				v1.AuditRow{At: noon, User: "bo", Remote: "10.0.0.3", RequestID: "2", Action: "users.list", Message: "not allowed"},
			)
		},
		"dialog-rollout": func(t *testing.T) *rig {
			return wide(t, State{lang: words.Chinese}).press(":").typing("rollouts").press("enter").answer(v1.Rollout{
				ID: "r-81", Op: "restart", Processes: []string{"shop/api"}, State: "paused", Reason: "3 failures of 3",
				Counts: v1.RolloutCounts{Hosts: 213, OK: 20, Failed: 3, Waiting: 190},
			}).press("r", "1")
		},
		"logs": func(t *testing.T) *rig {
			r := wide(t, State{coloured: true}).answer(fleet()...).press("space", "down", "space", "m")
			return r.send(LogRead{Number: asked[ReadLog](r).Number, Lines: []LogLine{
				{1, "10:02:10 GET /"}, {0, "10:02:11 panic: \x1b[2J网关"},
			}}).press("tab")
		},
		"dialog-zh": func(t *testing.T) *rig {
			return wide(t, State{lang: words.Chinese}).answer(fleet()...).press("K")
		},
		"sent": func(t *testing.T) *rig {
			r := wide(t, State{}).answer(fleet()...).press("S", "tab", "enter")
			sent := asked[Submit](r)
			r.send(Submitted{Op: sent.Op, Rows: sent.Rows, Task: v1.Task{
				ID: "op-x7k2m9q4w1zd", State: "running", Counts: v1.Counts{Targets: 1, Pending: 1},
			}})
			return r.answer(fleet()...)
		},
		"read-only": func(t *testing.T) *rig {
			return wide(t, State{readOnly: true}).answer(fleet()...).press("K")
		},
		"help":    func(t *testing.T) *rig { return begin(t, 80, 40, State{}).press("?") },
		"help-zh": func(t *testing.T) *rig { return begin(t, 80, 40, State{lang: words.Chinese}).press("?") },
	}
}

// TestFrames compares what the screen shows with testdata/frames, so that a change of it is seen.
func TestFrames(t *testing.T) {
	for name, play := range frames() {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join("testdata", "frames", name+".txt")
			got := View(play(t).state)
			var lines []string
			for l := range strings.SplitSeq(got, "\n") {
				lines = append(lines, strings.TrimRight(strings.ReplaceAll(l, "\x1b", "^"), " "))
			}
			got = strings.Join(lines, "\n") + "\n"
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(string(want), got); d != "" {
				t.Errorf("-want +got; -update writes it anew:\n%s", d)
			}
		})
	}
	files, err := os.ReadDir(filepath.Join("testdata", "frames"))
	if err != nil || len(files) != len(frames()) {
		t.Errorf("%d files of %d frames, %v", len(files), len(frames()), err)
	}
}

// TestNothingGreenWhenLost: what is shown is of the past.
func TestNothingGreenWhenLost(t *testing.T) {
	const green = "\x1b[32m"
	r := begin(t, 110, 16, State{coloured: true}).answer(fleet()...)
	if !strings.Contains(View(r.state), green) {
		t.Error("nothing is green while the server answers")
	}
	r.send(Tick(noon.Add(10 * time.Second)))
	r.send(Tick(noon.Add(20 * time.Second))) // the server is silent
	if frame := View(r.state); strings.Contains(frame, green) || !strings.Contains(frame, "lost since 12:00:00") {
		t.Errorf("silent:\n%s", frame)
	}
	r.answer(fleet()...)
	if frame := View(r.state); !strings.Contains(frame, green) || strings.Contains(frame, "lost") {
		t.Errorf("it does not heal:\n%s", frame)
	}
}

// TestHostsSteerNoTerminal: check looks at each frame.
func TestHostsSteerNoTerminal(t *testing.T) {
	for _, text := range []string{
		"\x1b[2J", "\x1b]52;c;aGk=\x07", "\x9b31m", "a\rb", "a\nb\tc", "\u202egnirts", "\u200b\u200d\ufeff", "\x00\x7f", "\xff\xfe",
		strings.Repeat("网", 300), strings.Repeat("e\u0301\u0302", 90), "👩‍👩‍👧‍👦🏳️‍🌈", "\u2028\u2029", strings.Repeat("\u0300", 50),
	} {
		cause := v1.Cause{ID: text, Text: text, Evidence: []string{text}}
		p := v1.Process{
			Namespace: text, Name: text, State: text, Message: text, Host: v1.Host{ID: text, IP: text},
			Instance:      &v1.Instance{Cmdline: text, Version: text, Health: text},
			ProcessDetail: v1.ProcessDetail{Cause: &cause, Further: []v1.Cause{cause}},
		}
		r := begin(t, 80, 24, State{coloured: true}).answer(p).press("l")
		r.send(LogRead{Number: asked[ReadLog](r).Number, Lines: []LogLine{{0, text}}})
		r.press("r", "esc", "K", "esc", "c", "C", "d").answer(p).press("q").answer(p).press("w").answer(v1.Why{
			Findings: []v1.Finding{{Namespace: text, Name: text, Host: p.Host, Cause: cause, Impact: text, Severity: text}},
		})
		r.press("e").answer(v1.Event{
			Namespace: text, Name: text, Kind: text, Host: p.Host, Cause: &cause, Actor: v1.Actor{User: text, App: text},
			EventDetail: v1.EventDetail{Output: text, Fields: []string{text}},
		}).press("enter")
		r.press("t").answer(v1.Task{ID: text, Op: text, Subject: text, User: text}).press("enter")
		r.answer(v1.Result{Namespace: text, Name: text, Host: text, Outcome: text, Message: text})
		r.press(":").send(tea.PasteMsg{Content: text}).press("enter").send(Notice(text))
		r.press(":", "ctrl+u").typing("hosts").press("enter").answer(v1.JoinedHost{
			Host: p.Host, Name: text, Build: text, Labels: map[string]string{text: text}, Notes: []string{text},
		})
		r.press(":", "ctrl+u").typing("people").press("enter").answer(v1.User{Name: text, Note: text}).press("enter")
		r.answer(v1.User{Name: text, Note: text, Grants: []v1.Grant{{Operations: []string{text}, Namespaces: []string{text}}}})
		r.press(":", "ctrl+u").typing("audit").press("enter").answer(v1.AuditRow{
			User: text, App: text, Remote: text, Action: text, Target: text, Message: text, Reason: text,
		})
		for _, d := range r.done {
			if c, ok := d.(Copy); ok && strings.ContainsAny(string(c), "\x1b\x07\u009b") {
				t.Errorf("copied %q", c)
			}
		}
	}
}

// doneTask is a task of which two targets have failed.
func doneTask() v1.Task {
	return v1.Task{
		ID: "op-x7k2m9q4w1zd", Op: "restart", Subject: "shop/api", Requests: 1, State: "done", User: "anna",
		CreatedAt: *before(time.Minute), Counts: v1.Counts{Targets: 213, OK: 211, Failed: 2},
	}
}

func colleagues() []any {
	return []any{
		v1.User{Name: "anna", Admin: true, CreatedAt: *before(48 * time.Hour)},
		v1.User{
			Name: "bea", CreatedAt: *before(time.Hour), Disabled: true,
			Grants: []v1.Grant{{Operations: []string{"viewer"}, Namespaces: []string{"web"}}},
			Provider: &v1.ProviderRights{Groups: []string{"ops"}, Grants: []v1.Grant{
				{Operations: []string{"operator"}, Namespaces: []string{"shop*"}},
			}},
		},
	}
}

// history is what a process has used within ten minutes: it grows, is restarted, and nobody measures it for a minute.
func history() v1.UsageHistory {
	start := noon.Add(-10 * time.Minute)
	h := v1.UsageHistory{Step: 30, Start: &start, End: &noon}
	for n := range 20 {
		if n != 14 && n != 15 {
			h.Steps = append(h.Steps, v1.UsageStep{
				At: start.Add(time.Duration(n+1) * 30 * time.Second), CPU: float64(n % 3), Memory: int64(n%12) << 20,
				Restarted: n == 12,
			})
		}
	}
	return h
}
