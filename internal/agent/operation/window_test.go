package operation_test

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"drover/internal/agent/instance"
	"drover/internal/agent/liveness"
	"drover/internal/agent/operation/operationtest"
	"drover/internal/process"
)

// TestCheckWindow is about the two check times of JOB: alive at the end is success, and up and dead between begin and
// end is not.
func TestCheckWindow(t *testing.T) {
	window := func(begin, end int, then func(w *world, id instance.Identity)) func(*world, *process.Spec) {
		return func(w *world, s *process.Spec) {
			s.Compat.StartCheckBegin, s.Compat.StartCheckEnd = begin, end
			w.Script("start", operationtest.Script{Takes: time.Second, End: func(run string) {
				id := w.Spawn("nginx", pidFile, run)
				if then != nil {
					then(w, id)
				}
			}})
		}
	}
	comes := func(begin, end int, at time.Duration) func(*world, *process.Spec) {
		return func(w *world, s *process.Spec) {
			s.Compat.StartCheckBegin, s.Compat.StartCheckEnd = begin, end
			w.Script("start", operationtest.Script{Takes: time.Second, End: func(run string) {
				after(at, func() { w.Spawn("nginx", pidFile, run) })
			}})
		}
	}
	dies := func(at time.Duration) func(*world, instance.Identity) {
		return func(w *world, id instance.Identity) { after(at, func() { w.Exit(id, 1) }) }
	}
	const notToTheEnd = "start process (nginx) failed, for post-check status not alive to the end of its check time"
	for _, c := range []scenario{
		{
			name: "alive throughout", set: window(2, 10, nil), text: "success", took: 11 * time.Second, alive: true,
			hosted: true,
		},
		{
			name: "the end is before the begin", set: window(4, 2, nil), text: "success", took: 5 * time.Second,
			alive: true, hosted: true,
		},
		{
			name: "the end is the begin", set: window(4, 4, nil), text: "success", took: 5 * time.Second, alive: true,
			hosted: true,
		},
		{
			name: "no time to come up", set: window(0, 10, nil), text: "success", took: 11 * time.Second, alive: true,
			hosted: true,
		},
		{
			name: "not yet alive at begin", set: comes(2, 10, 5*time.Second), text: "success", took: 11 * time.Second,
			alive: true, hosted: true,
		},
		{
			name: "it comes up at the last moment", set: comes(2, 10, 10*time.Second-time.Millisecond), text: "success",
			took: 11 * time.Second, alive: true, hosted: true,
		},
		{
			name: "it comes up too late", set: comes(2, 10, 10*time.Second+time.Millisecond), took: 11 * time.Second,
			fault: process.CheckFailed,
			text:  "start process (nginx) failed, for post-check status not alive: " + missing,
		},
		{
			name: "it comes up late and dies", took: 7 * time.Second, fault: process.CheckFailed,
			set: func(w *world, s *process.Spec) {
				s.Compat.StartCheckBegin, s.Compat.StartCheckEnd = 2, 10
				w.Script("start", operationtest.Script{Takes: time.Second, End: func(run string) {
					after(4*time.Second, func() {
						id := w.Spawn("nginx", pidFile, run)
						after(2*time.Second, func() { w.Exit(id, 1) })
					})
				}})
			},
			text: notToTheEnd + ": pid 101 exit status 1",
		},
		{
			name: "dead before begin, and up after it", text: "success", took: 11 * time.Second, alive: true,
			hosted: true,
			set: window(2, 10, func(w *world, id instance.Identity) {
				after(time.Second, func() { w.Exit(id, 0) })
				after(4*time.Second, func() { w.Spawn("nginx", pidFile, "run-1") })
			}),
		},
		{
			name: "dead before begin, alive again at begin", text: "success", took: 11 * time.Second, alive: true,
			hosted: true,
			set: window(2, 10, func(w *world, id instance.Identity) {
				after(time.Second, func() {
					w.Exit(id, 0)
					w.Spawn("nginx", pidFile, operationtest.RunID(nginx(), 1))
				})
			}),
		},
		{
			name: "death inside", set: window(2, 10, dies(6*time.Second)), took: 7 * time.Second,
			fault: process.CheckFailed,
			text:  notToTheEnd + ": pid 101 exit status 1",
		},
		{
			name: "death inside, although another one is there at the end", took: 7 * time.Second,
			fault: process.CheckFailed,
			set: window(2, 10, func(w *world, id instance.Identity) {
				after(6*time.Second, func() {
					w.Spawn("nginx", pidFile, operationtest.RunID(nginx(), 1))
					w.Exit(id, 1)
				})
			}),
			text: notToTheEnd + ": pid 101 exit status 1; drover ended the processes that it had started: pid 102 (nginx)",
		},
		{
			name: "death after the end", set: window(2, 10, dies(11*time.Second)), text: "success", took: 11 * time.Second,
			alive: true, hosted: true,
		},
		{
			name: "dead before the watch was on it", took: 11 * time.Second, fault: process.CheckFailed,
			set: func(w *world, s *process.Spec) {
				window(2, 10, nil)(w, s)
				w.WatchError = func(id instance.Identity) error {
					if id.PID != 101 {
						return nil
					}
					if w.Clock() > 1003*time.Second-time.Millisecond {
						w.Exit(id, 1)
					}
					return fmt.Errorf("pid 101: %w", liveness.ErrGone)
				}
			},
			text: notToTheEnd + ": pid 101 exit status 1",
		},
		{
			name: "it cannot be watched, and lives", text: "success", took: 11 * time.Second, alive: true, hosted: true,
			set: func(w *world, s *process.Spec) {
				window(2, 10, nil)(w, s)
				w.WatchError = unwatchable
			},
		},
		{
			name: "it cannot be watched, and dies", took: 11 * time.Second, fault: process.CheckFailed,
			set: func(w *world, s *process.Spec) {
				window(2, 10, dies(6*time.Second))(w, s)
				w.WatchError = unwatchable
			},
			text: notToTheEnd + ": pid 101 exit status 1",
		},
		{
			name: "it cannot be watched, and another one has taken its place", took: 11 * time.Second,
			fault: process.CheckFailed,
			set: func(w *world, s *process.Spec) {
				window(2, 10, func(w *world, id instance.Identity) {
					after(6*time.Second, func() {
						w.Exit(id, 1)
						w.Spawn("nginx", pidFile, operationtest.RunID(nginx(), 1))
					})
				})(w, s)
				w.WatchError = unwatchable
			},
			text: notToTheEnd +
				": pid 101 is gone, pid 102 has taken its place; drover ended the processes that it had started: pid 102 (nginx)",
		},
	} {
		c.op, c.ran = process.Start, []string{"start"}
		c.run(t)
	}
}

// unwatchable is a host that has no descriptor left for the daemon; commands can be watched.
func unwatchable(id instance.Identity) error {
	if id.PID == 101 {
		return syscall.EMFILE
	}
	return nil
}
