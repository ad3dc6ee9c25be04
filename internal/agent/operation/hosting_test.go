package operation_test

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	specs "drover/internal/spec"

	"github.com/google/go-cmp/cmp"

	v1 "drover/api/v1"
	"drover/internal/agent/instance"
	"drover/internal/agent/operation"
	"drover/internal/agent/record"
	"drover/internal/agent/specstore"
	"drover/internal/process"
)

func TestHost(t *testing.T) {
	for _, c := range []scenario{
		{name: "a running process", running: true, text: "success", alive: true, hosted: true},
		{name: "a stopped process", text: "success", hosted: true},
		{name: "one that is hosted already", running: true, known: hosted, text: "success", alive: true, hosted: true},
		{name: "a registered one", known: registered, text: "success", hosted: true},
		{
			name: "a periodic one", set: func(_ *world, s *process.Spec) { everyMinute(s) }, text: "success",
			hosted: true,
		},
		{
			name: "fewer instances than expected", set: func(_ *world, s *process.Spec) { s.ExpectedInstances = new(2) },
			running: true, text: "success: 1 of 2 instances are running", alive: true, hosted: true,
		},
		{
			name: "hosted under another name", running: true, alive: true, set: func(w *world, _ *process.Spec) {
				w.peers.hosting = other()
			},
			fault: process.Failed, text: "cannot host the process: it is hosted as other/nginx",
		},
		{
			name: "an unfit spec", set: func(_ *world, s *process.Spec) { s.PIDFile = "run/nginx.pid" },
			fault: process.Failed,
			text:  `spec.identity.pid_path "run/nginx.pid" is not absolute: expected a path that begins with /`,
		},
	} {
		c.op = process.Host
		c.run(t)
	}
}

func TestUnhost(t *testing.T) {
	for _, c := range []scenario{
		{name: "a hosted process goes on running", running: true, known: hosted, text: "success", alive: true},
		{name: "one that was not hosted", known: registered, text: "success"},
		{name: "an unknown one", running: true, text: "success", alive: true},
		{
			name: "without a spec", known: hosted, set: func(_ *world, s *process.Spec) { *s = process.Spec{} },
			text: "success",
		},
	} {
		c.op = process.Unhost
		c.run(t)
	}
}

func TestRegistration(t *testing.T) {
	for _, c := range []scenario{
		{name: "register a new one", op: process.Register, running: true, text: "success", alive: true},
		{
			name: "register a known one", op: process.Register, known: registered,
			fault: process.AlreadyRegistered, text: "Fail to register, for the process info already exists.",
		},
		{
			name: "register a hosted one", op: process.Register, known: hosted, hosted: true,
			fault: process.AlreadyRegistered, text: "Fail to register, for the process info already exists.",
		},
		{name: "update a new one", op: process.Update, text: "success"},
		{
			name: "update a known one", op: process.Update, running: true, known: registered, text: "success",
			alive: true,
		},
		{name: "update a hosted one", op: process.Update, known: hosted, text: "success", hosted: true},
		{
			name: "unregister leaves the process alone", op: process.Unregister, running: true, known: hosted,
			text: "success: pid 100 runs on, and drover no longer watches it", alive: true,
		},
		{name: "unregister one that is down", op: process.Unregister, known: hosted, text: "success"},
		{
			name: "unregister an unknown one", op: process.Unregister, fault: process.NotRunning,
			text: "the process is not registered",
		},
		{
			name: "no such operation", op: "freeze", running: true, known: hosted, hosted: true, alive: true,
			fault: process.IllegalOp, text: `there is no operation "freeze"`,
		},
		{
			name: "no such operation, and no spec", op: "freeze", set: func(_ *world, s *process.Spec) {
				*s = process.Spec{}
			},
			fault: process.IllegalOp, text: `there is no operation "freeze"`,
		},
	} {
		c.run(t)
	}
}

// TestWhatIsStored: which operations leave a record, and which take it away.
func TestWhatIsStored(t *testing.T) {
	for _, c := range []struct {
		op    process.Op
		known knowledge
		want  specstore.Change
	}{
		{
			process.Register, unknown,
			specstore.Change{Put: &record.Record{ID: nginx(), Spec: *spec(), Want: process.WantStopped}},
		},
		{
			process.Host, unknown,
			specstore.Change{Put: &record.Record{
				ID: nginx(), Spec: *spec(), Want: process.WantRunning,
				Hosted: true,
			}},
		},
		{
			process.Stop, unknown,
			specstore.Change{Put: &record.Record{ID: nginx(), Spec: *spec(), Want: process.WantStopped}},
		},
		{process.Reload, unknown, specstore.Change{}},
		{process.Reload, registered, specstore.Change{}},
		{process.Query, hosted, specstore.Change{}},
		{process.Unhost, unknown, specstore.Change{}},
		{process.Unregister, hosted, specstore.Change{Delete: true}},
	} {
		bubble(t, func(t *testing.T, w *world) {
			w.Spawn("nginx", pidFile, "")
			r, err := w.operator.Operate(t.Context(), entry(c.op, spec()), c.known.subject())
			if err != nil || r.Outcome.Fault != process.None {
				t.Fatalf("%s: %+v, %v", c.op, r.Outcome, err)
			}
			if diff := cmp.Diff(c.want, r.Change); diff != "" {
				t.Errorf("%s: (-want +got): %s", c.op, diff)
			}
		})
	}
}

func TestQuery(t *testing.T) {
	const started = 946684800 // the bubble's midnight
	up := process.Instance{PID: 100, Cmdline: "nginx", Stat: "S", StartedAt: started}
	down := process.Instance{PID: -1}
	for _, c := range []struct {
		name  string
		spec  *process.Spec
		known knowledge
		down  bool
		set   func(w *world)
		want  process.Status
	}{
		{
			name: "an unknown process that runs", spec: spec(),
			want: process.Status{ProcName: "nginx", LastStartAt: started, Instance: up},
		},
		{
			name: "an unknown process that does not", spec: spec(), down: true,
			want: process.Status{ProcName: "nginx", Message: missing, Instance: down},
		},
		{name: "an unknown process without a spec", want: process.Status{Instance: down}},
		{
			name: "an unknown process with a name only",
			spec: &process.Spec{ProcessName: "nginx", Compat: &v1.Compat{}},
			want: process.Status{ProcName: "nginx", Instance: down},
		},
		{
			name: "a known process without a spec", known: hosted,
			want: process.Status{
				Known: true, Hosted: true, Want: process.WantRunning, ProcName: "nginx",
				RegisteredAt: 1, LastStartAt: started, Instance: up,
			},
		},
		{
			name: "a known process with a name only", known: hosted,
			spec: &process.Spec{ProcessName: "nginx", Compat: &v1.Compat{}},
			want: process.Status{
				Known: true, Hosted: true, Want: process.WantRunning, ProcName: "nginx",
				RegisteredAt: 1, LastStartAt: started, Instance: up,
			},
		},
		{
			name: "another spec than the stored one", known: registered,
			spec: &process.Spec{ProcessName: "httpd", Directory: "/", PIDFile: pidFile, Compat: &v1.Compat{}},
			want: process.Status{
				Known: true, Want: process.WantStopped, ProcName: "httpd", RegisteredAt: 1,
				Message: "pid 100 in /run/nginx.pid is nginx", Instance: down,
			},
		},
		{
			name: "it ends while it is described", spec: spec(), set: func(w *world) {
				w.InstanceError = func(instance.Identity) error { return errors.New("gone") }
			},
			want: process.Status{ProcName: "nginx", Instance: down},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				if !c.down {
					w.Spawn("nginx", pidFile, "")
				}
				if c.set != nil {
					c.set(w)
				}
				r, err := w.operator.Operate(t.Context(), entry(process.Query, c.spec), c.known.subject())
				if err != nil {
					t.Fatal(err)
				}
				c.want.ReportedAt = started
				want := process.Outcome{Text: "success", Hosted: c.known == hosted, Status: &c.want}
				if diff := cmp.Diff(want, r.Outcome); diff != "" {
					t.Errorf("(-want +got): %s", diff)
				}
				if r.Change != (specstore.Change{}) || r.Restore || len(w.Lines()) > 0 {
					t.Errorf("a query changes %+v, restores %v, runs %v", r.Change, r.Restore, w.Lines())
				}
			})
		})
	}
}

// TestStopHoldsTheOtherHost: a stop of a process that another key hosts through the same pid file suspends the other's
// watch, and unhosts it only if it succeeds.
func TestStopHoldsTheOtherHost(t *testing.T) {
	for _, c := range []struct {
		name     string
		op       process.Op
		set      func(s *process.Spec)
		unhosted []bool
	}{
		{"stop", process.Stop, nil, []bool{true}},
		{"kill", process.Kill, nil, []bool{true}},
		{"a stop that fails", process.Stop, func(s *process.Spec) { s.Stop = "reload" }, []bool{false}},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				w.Spawn("nginx", pidFile, "")
				w.peers.owner, w.peers.ownerFile, w.peers.hosting = sibling(), pidFile, sibling()
				s := spec()
				if c.set != nil {
					c.set(s)
				}
				if _, err := w.operator.Operate(t.Context(), entry(c.op, s), unknown.subject()); err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff([]process.ID{sibling()}, w.peers.held); diff != "" {
					t.Errorf("held (-want +got): %s", diff)
				}
				if diff := cmp.Diff(c.unhosted, w.peers.unhosted); diff != "" {
					t.Errorf("unhosted (-want +got): %s", diff)
				}
			})
		})
	}
	bubble(t, func(t *testing.T, w *world) {
		w.Spawn("nginx", pidFile, "")
		w.peers.hosting, w.peers.holdError = sibling(), operation.ErrInterrupted
		if _, err := w.operator.Operate(t.Context(), entry(process.Stop, spec()), unknown.subject()); !errors.Is(err,
			operation.ErrInterrupted) {
			t.Errorf("got %v", err)
		}
		if len(w.Lines()) > 0 {
			t.Errorf("%v ran although the other process could not be held", w.Lines())
		}
	})
	bubble(t, func(t *testing.T, w *world) {
		w.peers.hosting = sibling()
		if _, err := w.operator.Operate(t.Context(), entry(process.Stop, spec()), unknown.subject()); err != nil {
			t.Fatal(err)
		}
		if len(w.peers.held) > 0 {
			t.Errorf("a stop that is refused has held %v", w.peers.held)
		}
	})
}

func TestLimit(t *testing.T) {
	s := spec()
	s.Compat.StartCheckBegin, s.Compat.StartCheckEnd, s.Compat.StopCheck, s.Compat.OpTimeout = 3, 7, 11, 100
	apart, early := *s, *s
	apart.Compat, early.Compat = new(*s.Compat), new(*s.Compat)
	apart.Compat.RestartCommand, early.Compat.StartCheckEnd = "", 0
	for _, c := range []struct {
		op   process.Op
		spec *process.Spec
		want time.Duration
	}{
		{process.Start, s, 107 * time.Second},
		{process.Start, &early, 103 * time.Second},
		{process.Reload, s, 107 * time.Second},
		{process.Restart, s, 107 * time.Second},
		{process.Restart, &apart, 218 * time.Second},
		{process.Stop, s, 116 * time.Second},
		{process.Kill, s, 116 * time.Second},
		{process.Query, s, 0},
		{process.Host, s, 0},
		{process.Unhost, s, 0},
		{process.Register, s, 0},
		{process.Update, s, 0},
		{process.Unregister, s, 0},
		{"freeze", s, 0},
		{process.Start, nil, 0},
	} {
		if got := operation.Limit(c.op, c.spec); got != c.want {
			t.Errorf("%s: %v, want %v", c.op, got, c.want)
		}
	}
}

// sibling is another process of the same namespace: whoever may stop one may stop the other.
func sibling() process.ID { return process.ID{Namespace: nginx().Namespace, Name: "other"} }

// TestStopUnderTheNameOfAnotherNamespace: rights are given by namespace, so it is refused, and the answer names the
// process.
func TestStopUnderTheNameOfAnotherNamespace(t *testing.T) {
	for _, op := range []process.Op{process.Stop, process.Kill} {
		bubble(t, func(t *testing.T, w *world) {
			w.Spawn("nginx", pidFile, "")
			w.peers.hosting = other()
			r, err := w.operator.Operate(t.Context(), entry(op, spec()), unknown.subject())
			if err != nil {
				t.Fatal(err)
			}
			want := "nothing was done: the process is hosted as other/nginx: " + string(op) + " it under that name"
			if r.Outcome.Fault != process.Failed || r.Outcome.Text != want || len(w.Lines()) > 0 ||
				len(w.peers.held) > 0 {
				t.Errorf("%+v, ran %v", r.Outcome, w.Lines())
			}
		})
	}
}

// TestUpdateOfARunningProcess: what a running process does not heed before its next start is named.
func TestUpdateOfARunningProcess(t *testing.T) {
	for _, c := range []struct {
		name string
		op   process.Op
		down bool
		user string
		set  func(s *process.Spec)
		want string
	}{
		{"nothing new", process.Update, false, "root", func(*process.Spec) {}, "success"},
		{"what counts at once", process.Update, false, "root", func(s *process.Spec) {
			s.Stop, s.Compat.StopCheck = "stop it", 30
		}, "success"},
		{
			"what waits", process.Update, false, "root", func(s *process.Spec) {
				s.User, s.Directory, s.Start, s.Limits = "nobody", "/srv", "./run", &v1.Limits{Memory: 1 << 30}
			},
			"success: pid 100 runs on unchanged; these fields wait for its next start: user, setup_path, start_cmd",
		},
		{
			"by another operation", process.Host, false, "root", func(s *process.Spec) { s.Start = "./run" },
			"success: pid 100 runs on unchanged; these fields wait for its next start: start_cmd",
		},
		{
			"an account that waits since the last update", process.Update, false, "daemon", func(*process.Spec) {},
			"success: pid 100 runs on unchanged; these fields wait for its next start: user",
		},
		{
			"under the names of a process file", process.Update, false, "root", func(s *process.Spec) {
				s.Compat = nil
				s.User, s.Directory, s.Start = "nobody", "/srv", "./run"
			},
			"success: pid 100 runs on unchanged; these fields wait for its next start: user, directory, start",
		},
		{
			"what the program gets", process.Update, false, "root", func(s *process.Spec) {
				s.Environment = map[string]string{"ONE": "1", "TWO": "2"}
				s.Umask, s.Limits, s.PIDFile = "007", &v1.Limits{Strict: true}, "/run/other.pid"
				s.Start = "./run"
			},
			"success: pid 100 runs on unchanged; these fields wait for its next start: start_cmd, environment.ONE, " +
				"environment.TWO, pid_path, umask",
		},
		{
			"of one that is down", process.Update, true, "", func(s *process.Spec) { s.User = "nobody" },
			"success",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				s, subject := spec(), hosted.subject()
				s.User, subject.Record.Spec.User = "root", "root"
				c.set(s)
				if !c.down {
					who := w.Spawn("nginx", pidFile, "")
					subject.Runtime.Process, subject.Runtime.Run, subject.Runtime.User = &who, "run", c.user
				}
				r, err := w.operator.Operate(t.Context(), entry(c.op, s), subject)
				if err != nil || r.Outcome.Text != c.want {
					t.Errorf("%+v, %v; want %q", r.Outcome, err, c.want)
				}
			})
		})
	}
}

// TestUpdateBackToWhatRuns: after an update that waits, another one brings back what the process was started with.
func TestUpdateBackToWhatRuns(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		subject := hosted.subject()
		subject.Record.Spec.User, subject.Record.Spec.Directory = "nobody", "/srv"
		subject.Record.Spec.Start = "./run"
		who, s := w.Spawn("nginx", pidFile, ""), spec()
		s.User = "root"
		subject.Runtime = record.Runtime{
			Process: &who, Run: "run", User: "root", SetupPath: s.Directory, Command: s.Start,
			StartDigest: s.StartDigest(),
		}
		subject.Record.Spec.Environment = map[string]string{"ONE": "1"}
		r, err := w.operator.Operate(t.Context(), entry(process.Update, s), subject)
		if err != nil || r.Outcome.Text != process.Success {
			t.Errorf("%+v, %v", r.Outcome, err)
		}
		r, err = w.operator.Operate(t.Context(), entry(process.Update, &subject.Record.Spec), subject)
		want := "success: pid 100 runs on unchanged; these fields wait for its next start: user, setup_path, start_cmd"
		if err != nil || r.Outcome.Text != want {
			t.Errorf("%+v, %v; want %q", r.Outcome, err, want)
		}
	})
}

// TestStrictLimits: a strict limit that the host cannot give is refused before it is stored, because the next start of
// the running process would fail.
func TestStrictLimits(t *testing.T) {
	for _, op := range []process.Op{process.Update, process.Host, process.Start} {
		t.Run(string(op), func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				config := w.Operations()
				config.Relimit = func(instance.Scope, *process.Spec, *process.Spec) map[string]string { return nil }
				config.LimitNotes = func(*process.Spec) []string { return []string{"limits.open_files is 20 instead of 30"} }
				o := operation.New(config, w.peers)
				running := w.Spawn("api", "", "run-1")
				was, is := foreground(), foreground()
				is.Limits = &v1.Limits{OpenFiles: 30, Strict: true}
				subject := operation.Subject{
					Record:  &record.Record{ID: nginx(), Spec: *was, Hosted: true},
					Runtime: record.Runtime{Process: &running, Run: "run-1", LastStartAt: 1},
				}
				r, err := o.Operate(t.Context(), entry(op, is), subject)
				want := "preflight failed: limits.strict: limits.open_files is 20 instead of 30; nothing was done: pid 100 runs on"
				if err != nil || r.Outcome.Fault != process.Failed || r.Outcome.Text != want || r.Change.Put != nil {
					t.Errorf("%+v, %+v, %v", r.Outcome, r.Change.Put, err)
				}
				is.Limits.Strict = false
				if r, err := o.Operate(t.Context(), entry(op, is), subject); err != nil || r.Change.Put == nil {
					t.Errorf("without strict: %+v, %v", r.Outcome, err)
				}
			})
		})
	}
}

// TestRelimit: the operations that store a spec change the limits of the running process, and say which they could not
// change; those are known until the next start, or until they are changed.
func TestRelimit(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		var asked []string
		failing := map[string]string{}
		config := w.Operations()
		config.Relimit = func(s instance.Scope, was, is *process.Spec) map[string]string {
			asked = append(asked, s.Run+" "+strings.Join(specs.ChangedLimits(was, is), ","))
			return failing
		}
		o := operation.New(config, w.peers)
		running := w.Spawn("api", "", "run-1")
		was := foreground()
		was.Limits = &v1.Limits{Memory: 64 << 20}
		subject := operation.Subject{
			Record: &record.Record{ID: nginx(), Spec: *was, Hosted: true},
			Runtime: record.Runtime{
				Process: &running, Run: "run-1", LastStartAt: 1, Limits: map[string]string{"tasks": "old", "memory": "old"},
			},
		}
		for i, c := range []struct {
			op      process.Op
			failing map[string]string
			set     func(*process.Spec)
			asked   string
			text    string
			late    map[string]string
		}{
			{
				process.Update, nil, func(s *process.Spec) { s.Limits.Memory = 80 << 20 }, "run-1 memory", "success",
				map[string]string{"tasks": "old"},
			},
			{
				process.Update,
				map[string]string{"open_files": "no right"},
				func(s *process.Spec) { s.Limits.OpenFiles, s.Limits.Memory = 9, 0 },
				"run-1 memory,open_files", "success: limits.open_files takes effect at the next start: no right",
				map[string]string{"tasks": "old", "open_files": "no right"},
			},
			{
				process.Start,
				map[string]string{"cpu": "no right"},
				func(s *process.Spec) { s.Limits.CPU = 50 }, "run-1 cpu",
				"is already running, pid 100; limits.cpu takes effect at the next start: no right",
				map[string]string{"tasks": "old", "memory": "old", "cpu": "no right"},
			},
			{
				process.Host, nil, func(s *process.Spec) { s.Limits.Tasks = 50 }, "run-1 tasks", "success",
				map[string]string{"memory": "old"},
			},
			{
				process.Update, nil, func(s *process.Spec) { s.Limits.StackSize = 9 }, "",
				"success: pid 100 runs on unchanged; these fields wait for its next start: limits.stack_size",
				map[string]string{"tasks": "old", "memory": "old"},
			},
		} {
			asked, failing = nil, c.failing
			s := *was
			s.Limits = new(*was.Limits)
			c.set(&s)
			e := entry(c.op, &s)
			e.Item = string(rune('a' + i))
			r, err := o.Operate(t.Context(), e, subject)
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(asked, " "); got != c.asked || !strings.HasSuffix(r.Outcome.Text, c.text) ||
				!maps.Equal(r.Runtime.Limits, c.late) {
				t.Errorf("%s: asked %q, %q, %v", c.op, got, r.Outcome.Text, r.Runtime.Limits)
			}
			record := &record.Record{ID: subject.Record.ID, Spec: s, RegisteredAt: 1}
			for _, why := range o.Findings(record, &r.Runtime) {
				if !strings.Contains(why.Text, "at the next start") || c.asked != "" && why.Since != time.Now().UnixMilli() {
					t.Errorf("it is in force: %+v", why)
				}
			}
		}
		next := operation.WithSighting(subject.Runtime, instance.Sighting{ID: new(w.Spawn("api", "", "run-2")), Run: "run-2"})
		if next.Limits != nil || next.LimitsSince != 0 {
			t.Errorf("the next run has %v", next.Limits)
		}
	})
}

// TestFullLog: a running process in the foreground says that its log has no room; others write elsewhere.
func TestFullLog(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		full := int64(7)
		config := w.Operations()
		config.LogFull = func() int64 { return full }
		o := operation.New(config, w.peers)
		running := w.Spawn("api", "", "run-1")
		ran := record.Runtime{Process: &running, Run: "run-1"}
		found := func(spec *process.Spec, rt *record.Runtime) (ids []process.CauseID) {
			for _, c := range o.Findings(&record.Record{ID: nginx(), Spec: *spec}, rt) {
				if ids = append(ids, c.ID); c.Since != full {
					t.Errorf("%+v", c)
				}
			}
			return ids
		}
		if got := found(foreground(), &ran); !slices.Equal(got, []process.CauseID{process.CauseLogFull}) {
			t.Errorf("found %q", got)
		}
		got := slices.Concat(found(foreground(), &record.Runtime{}), found(spec(), &ran))
		if full = 0; len(got) > 0 || len(found(foreground(), &ran)) > 0 {
			t.Errorf("found %q", got)
		}
	})
}
