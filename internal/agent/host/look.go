package host

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"syscall"
	"time"

	"drover/internal/agent/liveness"
	"drover/internal/agent/locate"
	"drover/internal/agent/operation"
	"drover/internal/agent/procfs"
	"drover/internal/agent/specstore"
	"drover/internal/process"
)

const (
	// stepTolerance is how far the clocks may drift apart before the wall clock counts as stepped.
	stepTolerance = 2 * time.Second
	// fileTolerance is how much later than its pid file a process may seem to have started: clock ticks and file times are
	// coarse.
	fileTolerance = time.Second
)

// Look finds the live instance of a process. A recorded identity that still runs decides alone. When none was recorded in
// this boot, a process that started after its pid file was written is a stranger at a reused pid.
func (h *Host) Look(spec *process.Spec, rt specstore.Runtime) operation.Sighting {
	query := locate.Query{ProcName: spec.Identity.ProcName, PIDPath: spec.Identity.PIDPath, SetupPath: spec.Identity.SetupPath, Count: spec.Policy.Instances > 1}
	if rt.Process != nil && h.alive(*rt.Process) {
		s := operation.Sighting{ID: rt.Process, PIDFile: rt.PIDFile, Matches: 1}
		if spec.Policy.Instances > 1 {
			if found := h.search(query).Found; found != nil {
				s.Matches = max(found.Matches, 1)
			}
		}
		return s
	}
	r := h.search(query)
	if r.Found == nil && spec.Policy.Instances > 1 && query.PIDPath != "" {
		// One of several instances is enough, whichever the pid file named last.
		query.PIDPath = ""
		if byName := h.search(query); byName.Found != nil {
			r = byName
		}
	}
	if r.Found == nil {
		return operation.Sighting{Note: r.Note, Cause: r.Cause}
	}
	if rt.Process == nil && h.stranger(*r.Found) {
		note := fmt.Sprintf("pid %d in %s started after the file was written: the pid was used again by another process", r.Found.ID.PID, r.Found.PIDFile)
		return operation.Sighting{Note: note, Cause: process.CauseOddPIDFile}
	}
	return operation.Sighting{ID: &r.Found.ID, PIDFile: r.file, Matches: r.Found.Matches, Note: r.Note}
}

// found is what a search has come to, with the pid file that led to it, links resolved.
type found struct {
	locate.Result
	file string
}

// search looks for a process, for as long as its files take to answer and no longer than they may.
func (h *Host) search(q locate.Query) found {
	path := cmp.Or(q.PIDPath, q.SetupPath)
	r, err := within(h.files, path, func() found {
		r := found{Result: h.find(h.fs, q)}
		if r.Found == nil || r.Found.PIDFile == "" {
			return r
		}
		r.file = r.Found.PIDFile
		if resolved, err := filepath.EvalSymlinks(r.file); err == nil {
			r.file = resolved
		}
		return r
	})
	if err != nil {
		return found{Result: locate.Result{Note: fmt.Sprintf("%s %v", path, err), Cause: process.CauseFileHangs}}
	}
	return r
}

// stranger reports whether a process that a pid file names cannot be the one that the file was written for. Where the wall
// clock was stepped nobody can tell, and the name alone decides.
func (h *Host) stranger(f locate.Found) bool {
	if f.PIDFile == "" || (ClockOffset()-h.offset).Abs() > stepTolerance {
		return false
	}
	started, err := h.fs.StartTime(f.ID.StartTicks)
	return err == nil && started.After(f.PIDFileTime.Add(fileTolerance))
}

// Watch implements operation.Processes. A process that ended before the call, while this agent was there to see it, is told of
// at once: a command may be over before anybody can ask about it.
func (h *Host) Watch(id procfs.Identity, fn func(liveness.Exit)) (stop func(), err error) {
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
func (h *Host) Signal(id procfs.Identity, sig syscall.Signal) error {
	return liveness.Signal(h.fs, id, sig)
}

// SignalGroup implements operation.Processes. While the leader lives, its number cannot be another group's.
func (h *Host) SignalGroup(id procfs.Identity, sig syscall.Signal) error {
	return liveness.SignalGroup(h.fs, id, sig)
}

// Instance implements operation.Processes.
func (h *Host) Instance(id procfs.Identity) (process.Instance, error) { return h.sampler.Instance(id) }

// Glance implements operation.Processes.
func (h *Host) Glance(id procfs.Identity) (alive, moved bool) { return h.sampler.Glance(id) }

func (h *Host) alive(id procfs.Identity) bool {
	alive, _ := h.sampler.Glance(id)
	return alive
}
