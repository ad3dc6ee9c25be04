package host

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"drover/internal/agent/cgroup"
	"drover/internal/agent/instance"
	"drover/internal/agent/launch"
	"drover/internal/process"
)

// run is a command under way, or one whose output has not been dropped yet.
type run struct {
	group  *cgroup.Group
	output *launch.Output
}

// maxLaunches is how many commands are started side by side.
const maxLaunches = 8

// Launch implements operation.Commands: the command is born in a control group of its own where there are any, and its
// output goes to a file that is named for the run.
func (h *Host) Launch(id, line string, spec *process.Spec) (instance.Child, error) {
	account, started, err := h.prepare(spec)
	if err != nil {
		return nil, err
	}
	defer started()
	// Before anything of it can be seen: a sweep takes away what belongs to no run under way.
	h.setRun(id, &run{})
	proof, err := h.createProof(id)
	if err != nil {
		h.close(id)
		return nil, err
	}
	defer proof.Close() //nolint:errcheck // what was written is in the file
	output, file, err := h.createOutput(id)
	if err != nil {
		h.close(id)
		return nil, err
	}
	if output == nil {
		defer file.Close() //nolint:errcheck // nothing is written to it here
	}
	group := h.createGroup(id)
	if spec.Hard != (process.HardLimits{}) {
		h.limit(id, group, spec.Hard)
	}
	h.setRun(id, &run{group: group, output: output})
	child, err := h.start(launch.Command{
		Line: line, Dir: spec.Identity.SetupPath, Account: account, Mark: id, Output: file, Proof: proof, Group: group,
	})
	if err != nil {
		return nil, err
	}
	return child, nil
}

// prepare waits until few enough others are being started, and returns whom a command is run as. started gives the
// place back.
func (h *Host) prepare(spec *process.Spec) (account launch.Account, started func(), err error) {
	account, err = launch.LookupAccount("/", spec.Identity.User)
	if err != nil {
		refused := process.Errorf(process.Failed, "spec.identity.user: %v", err)
		if errors.Is(err, launch.ErrNoAccount) {
			refused = refused.Because(process.CauseNoUser)
		}
		return launch.Account{}, nil, refused
	}
	if err := h.reach(spec.Identity.SetupPath, account); err != nil {
		return launch.Account{}, nil, err
	}
	h.launches <- struct{}{}
	return account, func() { <-h.launches }, nil
}

// createGroup makes the control group of a run. A run without one is still a run: its end is found by descent and by
// mark.
func (h *Host) createGroup(id string) *cgroup.Group {
	group, err := h.tree.Create(id)
	if err != nil {
		h.log.Warn("cannot create control group", "run", id, "error", err)
		return nil
	}
	return group
}

// start forks a command, which waits at its gate.
func (h *Host) start(c launch.Command) (*launch.Child, error) {
	child, err := h.forker.Start(c)
	if err != nil {
		return nil, err
	}
	if err := child.GroupError(); err != nil {
		h.log.Warn("cannot move command into its control group", "run", c.Mark, "error", err)
	}
	return child, nil
}

func (h *Host) setRun(id string, r *run) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.runs[id] = r
}

// createProof makes what will tell whether a run has begun. Without it nothing may begin: a successor of this agent
// might begin it again.
func (h *Host) createProof(id string) (proof *os.File, err error) {
	err = h.urgent(func() error {
		proof, err = launch.CreateProof(filepath.Join(h.proofs, id))
		return err
	})
	if err != nil {
		return nil, instance.Unrecorded(err)
	}
	return proof, nil
}

// createOutput makes the output file of a run. A disk that takes no file must not keep a process from being started:
// its output is dropped then, and output is nil.
func (h *Host) createOutput(id string) (output *launch.Output, file *os.File, err error) {
	output, err = launch.CreateOutput(h.outputs, id)
	if err == nil {
		if err = output.Probe(); err == nil {
			return output, output.File(), nil
		}
		_ = output.Close()
	}
	_ = os.Remove(filepath.Join(h.outputs, id)) // one that was made and takes nothing
	h.log.Warn("dropping output of command", "run", id, "error", err)
	file, err = os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		return nil, nil, process.Errorf(process.Failed, "cannot drop the output of the command: %v", err)
	}
	return nil, file, nil
}

// runOf returns a run, one that an earlier agent began included; output is nil when its file is not there any more.
func (h *Host) runOf(id string) *run {
	h.mu.Lock()
	defer h.mu.Unlock()
	if r, ok := h.runs[id]; ok {
		return r
	}
	r := &run{}
	if output, err := launch.OpenOutput(h.outputs, id); err == nil {
		r.output = output
	}
	if group, ok := h.tree.Group(id); ok {
		r.group = group
	}
	h.runs[id] = r
	return r
}

// Ran implements operation.Commands.
func (h *Host) Ran(id string) bool { return launch.Ran(filepath.Join(h.proofs, id)) }

// Output implements operation.Commands. It gives back what the run holds open.
func (h *Host) Output(id string) string {
	r := h.runOf(id)
	text := ""
	if r.output != nil {
		text = r.output.Text()
	}
	h.close(id)
	// Who has its output knows that it has run.
	h.remove(filepath.Join(h.proofs, id))
	return text
}

func (h *Host) close(id string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := h.runs[id]
	if r == nil {
		return
	}
	delete(h.runs, id)
	if r.output != nil {
		_ = r.output.Close()
	}
	if r.group != nil {
		_ = r.group.Close()
	}
}

// Discard implements operation.Commands.
func (h *Host) Discard(id string) {
	h.close(id)
	h.remove(filepath.Join(h.outputs, id))
	h.remove(filepath.Join(h.proofs, id))
	if group, ok := h.tree.Group(id); ok {
		_ = group.Remove() // what still lives there keeps it, and the next sweep sees to it
		_ = group.Close()
	}
}

// remove removes a file, which need not be there.
func (h *Host) remove(path string) {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		h.log.Warn("cannot remove file of a command", "file", path, "error", err)
	}
}
