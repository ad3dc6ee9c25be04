package host

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"drover/internal/agent/instance"
	"drover/internal/agent/launch"
	"drover/internal/agent/liveness"
	"drover/internal/agent/locate"
	"drover/internal/agent/record"
	"drover/internal/agent/trail"
	"drover/internal/process"
)

const (
	// stepTolerance is how far the clocks may drift apart before drover treats the wall clock as stepped.
	stepTolerance = 2 * time.Second
	// fileTolerance is how much later than its pid file a process may seem to start: clock ticks and file times are
	// coarse.
	fileTolerance = time.Second
)

// Look implements operation.Processes. A recorded identity that still runs decides alone. Otherwise a process that
// started after its pid file was written is a stranger at a reused pid, unless it was born in a run of the process.
func (h *Host) Look(spec *process.Spec, rt record.Runtime, whose instance.Ownership) instance.Sighting {
	if spec.Foreground() {
		return h.lookAt(spec, rt)
	}
	several := spec.Instances() > 1 && spec.ProcessName != ""
	account, err := h.names.account(spec.User)
	if err != nil {
		return instance.Sighting{Note: err.Error(), Cause: process.CauseNoUser}
	}
	query := h.queryOf(spec, account, whose)
	query.Count = several
	if rt.Process != nil && h.alive(*rt.Process) {
		s := instance.Sighting{ID: rt.Process, PIDFile: rt.PIDFile, Matches: 1}
		if several {
			if found := h.search(query).Process; found != nil {
				s.Matches, s.Instances = max(found.Matches, 1), h.instances(found.All, spec, whose)
			}
		}
		return s
	}
	r := h.search(query)
	if r.Process != nil && h.stranger(*r.Process, whose) {
		r = locate.Result{
			Note: fmt.Sprintf("pid %d in %s started after the file was written: another process reuses the pid",
				r.Process.ID.PID, r.Process.PIDFile),
			Cause: process.CauseOddPIDFile,
		}
	}
	if r.Process == nil && several && query.PIDPath != "" {
		// If the process has several instances, any instance counts, not only the one in the pid file.
		query.PIDPath = ""
		if byName := h.search(query); byName.Process != nil {
			r = byName
		}
	}
	if r.Process == nil {
		s := instance.Sighting{Note: r.Note, Cause: r.Cause}
		if r.Doubt {
			s.Doubt = r.Note
		}
		if r.PID != 0 {
			s.Ended = h.ended(r)
		}
		return s
	}
	s := instance.Sighting{ID: &r.Process.ID, PIDFile: r.Process.Resolved, Matches: r.Process.Matches, Note: r.Note}
	if several {
		s.Instances = h.instances(r.Process.All, spec, whose)
	}
	if r.Process.PIDFile == "" {
		s.Doubt = h.doubt(r.Process, spec, whose)
	}
	return s
}

// ended describes the process in a pid file that was not found; nil if a process with its pid lives.
func (h *Host) ended(r locate.Result) *instance.Ended {
	if _, err := h.fs.Identify(r.PID); !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	e := &instance.Ended{PID: r.PID, PIDFileTime: time.Duration(r.PIDFileTime.UnixNano()) - ClockOffset()}
	id, exit, ok := h.watcher.ExitedLast(r.PID)
	if ok && id.StartedAfterBoot() <= e.PIDFileTime+fileTolerance {
		e.How = exit.Process()
	}
	return e
}

// queryOf returns the question for the process of a spec.
func (h *Host) queryOf(spec *process.Spec, account launch.Account, whose instance.Ownership) locate.Query {
	return locate.Query{
		ProcName: spec.ProcessName, PIDPath: spec.PIDFile, SetupPath: spec.Dir(),
		Account: account, Visit: h.visitor(account),
		Other: whose.Other, Own: func(id instance.Identity) bool { return h.own(id, whose) },
		Looks: h.byName,
	}
}

// lookAt is Look for a foreground process: drover knows it from its birth, so no other process can be it.
func (h *Host) lookAt(spec *process.Spec, rt record.Runtime) instance.Sighting {
	if rt.Process == nil || !h.alive(*rt.Process) {
		return instance.Sighting{}
	}
	s := instance.Sighting{ID: rt.Process, Matches: 1}
	if spec.ProcessName == "" {
		return s
	}
	if info, err := h.fs.Info(rt.Process.PID); err == nil {
		if name := locate.OtherName(spec, info); name != "" {
			s.Note = fmt.Sprintf("process_name is %q, but the executable of pid %d is %q", spec.ProcessName,
				rt.Process.PID, name)
		}
	}
	return s
}

// own reports whether a process was born in a run of the process that drover looks for.
func (h *Host) own(id instance.Identity, whose instance.Ownership) bool {
	run := h.RunOf(id)
	return run != "" && whose.Own != nil && whose.Own(run)
}

// instances returns the matches that are proven to be instances of the process.
func (h *Host) instances(
	all []locate.Match, spec *process.Spec, whose instance.Ownership,
) (proven []instance.Identity) {
	for _, m := range all {
		if m.Head && (h.own(m.ID, whose) || h.mistaken(m, spec) == "") {
			proven = append(proven, m.ID)
		}
	}
	return proven
}

// doubt says why a process that was found only by name may belong to somebody else. It is empty if drover started the
// process. It is also empty if the process is the only match, runs as the spec's user and works in its directory.
func (h *Host) doubt(f *locate.LiveProcess, spec *process.Spec, whose instance.Ownership) string {
	if h.own(f.ID, whose) {
		return ""
	}
	heads := 0
	for _, m := range f.All {
		if m.Head {
			heads++
		}
	}
	if heads > max(spec.Instances(), 1) {
		return fmt.Sprintf("%d processes %s fit", heads, spec.ProcessName)
	}
	for _, m := range f.All {
		if m.ID == f.ID {
			return h.mistaken(m, spec)
		}
	}
	return ""
}

// mistaken says why a match is probably not the process of the spec; empty if it can be.
func (h *Host) mistaken(m locate.Match, spec *process.Spec) string {
	account, err := h.names.account(spec.User)
	switch {
	case err != nil:
		return err.Error()
	case int64(m.UID) != int64(account.UID):
		return fmt.Sprintf("it runs as uid %d, but user %s is uid %d", m.UID, spec.User, account.UID)
	case !sameDir(m.Cwd, spec.Dir()):
		return fmt.Sprintf("it works in %s, not in %s", m.Cwd, spec.Dir())
	}
	return ""
}

// sameDir reports whether path leads to dir. The links in dir are already resolved.
func sameDir(dir, path string) bool {
	real, err := trail.Resolve(path)
	return dir != "" && (dir == filepath.Clean(path) || err == nil && dir == real)
}

// search looks for a process, at most for the patience of the fileProber.
func (h *Host) search(q locate.Query) locate.Result {
	path := cmp.Or(q.PIDPath, q.SetupPath)
	r, err := within(h.files, q.Account.Name, path, func() locate.Result { return h.find(h.fs, q) })
	if err != nil {
		return locate.Result{Note: fmt.Sprintf("%s %v", path, err), Cause: process.CauseFileHangs}
	}
	return r
}

// stranger reports whether the process in a pid file cannot be the process that the file was written for. If the wall
// clock was stepped, drover cannot tell, and the name alone decides.
func (h *Host) stranger(f locate.LiveProcess, whose instance.Ownership) bool {
	if f.PIDFile == "" || h.own(f.ID, whose) || (ClockOffset()-h.offset).Abs() > stepTolerance {
		return false
	}
	started, err := h.fs.StartTime(f.ID.StartTicks)
	return err == nil && started.After(f.PIDFileTime.Add(fileTolerance))
}

// Watch implements operation.Processes. If this agent has already seen the process end, it calls fn at once: a command
// may end before the caller can ask about it.
func (h *Host) Watch(id instance.Identity, fn func(liveness.Exit)) (stop func(), err error) {
	stop, err = h.watcher.Watch(id, func(e liveness.Exit) {
		h.sampler.Forget(id)
		fn(e)
	})
	if !errors.Is(err, liveness.ErrGone) {
		return stop, err
	}
	exit, ok := h.watcher.Exited(id)
	if !ok {
		return nil, err
	}
	fn(exit)
	return func() {}, nil
}

// Signal implements operation.Processes.
func (h *Host) Signal(id instance.Identity, sig syscall.Signal) error {
	return liveness.Signal(h.fs, id, sig)
}

// Instance implements operation.Processes.
func (h *Host) Instance(id instance.Identity) (i process.Instance, moved bool, err error) {
	return h.sampler.Instance(id)
}

// Glance implements operation.Processes.
func (h *Host) Glance(id instance.Identity) (alive, moved bool) { return h.sampler.Glance(id) }

// Executes implements operation.Processes.
func (h *Host) Executes(id instance.Identity) bool {
	return launch.Executing(h.fs, id.PID) && h.alive(id)
}

func (h *Host) alive(id instance.Identity) bool {
	alive, _ := h.sampler.Glance(id)
	return alive
}
