package host

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"drover/internal/agent/cgroup"
	"drover/internal/agent/instance"
	"drover/internal/agent/launch"
	"drover/internal/process"
)

// run is a command under way, or a command whose output has not been dropped yet.
type run struct {
	group  *cgroup.Group
	output *launch.Output
}

// maxLaunches is how many commands may start at the same time.
const maxLaunches = 8

// Launch implements operation.Commands. The command is born in a control group of its own if the host has control
// groups. Its output goes to a file with the name of the run.
func (h *Host) Launch(of process.ID, id, line string, spec *process.Spec) (instance.Child, error) {
	command, started, err := h.prepare(of, spec)
	if err != nil {
		return nil, err
	}
	defer started()
	// Do this before anything of the run is visible: a sweep removes everything that belongs to no run under way.
	h.setRun(id, &run{})
	proof, err := h.createProof(id)
	if err != nil {
		h.close(id)
		return nil, err
	}
	defer proof.Close() //nolint:errcheck // the byte is already in the file
	output, err := h.openOutput(of, id, line, spec, &command)
	if err != nil {
		h.close(id)
		return nil, err
	}
	if output == nil {
		defer closeOutput(&command)
	}
	signal, err := h.admit(&command, id, spec)
	if err != nil {
		h.close(id)
		return nil, err
	}
	if signal != nil {
		defer signal.Close() //nolint:errcheck // nothing is written to it here
	}
	group := h.createGroup(id)
	h.limit(id, group, spec.GroupLimits())
	h.setRun(id, &run{group: group, output: output})
	command.Line, command.Mark, command.Proof, command.Group = line, id, proof, group
	child, err := h.start(command)
	if err != nil {
		return nil, err
	}
	return child, nil
}

// prepare returns what every command of a spec gets, and waits for a free launch slot. started releases the slot. The
// error names all that this host lacks.
func (h *Host) prepare(of process.ID, spec *process.Spec) (c launch.Command, started func(), err error) {
	var l lack
	account, variables := h.resolve(of, spec, h.runtime.make, &l)
	if err := l.err(); err != nil {
		return launch.Command{}, nil, err
	}
	h.launches <- struct{}{}
	return launch.Command{
		Dir: spec.Dir(), Account: account, Variables: variables, Execution: spec.Execution(),
	}, func() { <-h.launches }, nil
}

// resolve returns account and variables of the commands of a spec, whose runtime directory is as runtime says. It adds
// to l all that this host lacks.
func (h *Host) resolve(of process.ID, spec *process.Spec,
	runtime func(process.ID, string, launch.Account) (string, error), l *lack,
) (launch.Account, map[string]string) {
	account, err := launch.LookupAccount("/", cmp.Or(spec.User, launch.OwnName()))
	l.add(spec.Field("user", "spec.identity.user"), err)
	for _, of := range []struct {
		field, group string
		groups       []string
	}{{"group", spec.Group, nil}, {"groups", "", spec.Groups}} {
		grouped, err := account.In("/", of.group, of.groups)
		if l.add(of.field, err); err == nil {
			account = grouped
		}
	}
	return account, h.settle(of, spec, account, runtime, l)
}

// settle checks the directory of a spec, has its runtime directory made, and returns the variables of its commands. For
// an account that the host lacks, it checks only whether the directory exists.
func (h *Host) settle(of process.ID, spec *process.Spec, account launch.Account,
	runtime func(process.ID, string, launch.Account) (string, error), l *lack,
) map[string]string {
	known, made := account.Name != "", ""
	var err error
	if name := spec.RuntimeDirectory; l.err() == nil && name != "" && of != (process.ID{}) {
		made, err = runtime(of, name, account)
		l.because("runtime_directory", err, process.CauseNoDirectory)
	}
	if !known {
		account, _ = launch.LookupAccount("/", launch.OwnName())
	}
	err = h.reach(spec.Field("directory", "setup_path"), spec.Dir(), account)
	if l.add("", err); !known || err != nil && process.CauseOf(err) != process.CauseNoDirectory {
		return nil
	}
	variables, err := h.variables(of, spec, account)
	l.because("environment_files", err, process.CauseNoVariables)
	if made != "" {
		variables["RUNTIME_DIRECTORY"] = made
	}
	return variables
}

// lack is what a host lacks for the commands of a spec: a text for each fault, and the cause of the first.
type lack struct {
	texts []string
	cause process.CauseID
}

// add adds the fault of a field; an empty field is in the error itself.
func (l *lack) add(field string, err error) {
	cause := process.CauseOf(err)
	if errors.Is(err, launch.ErrNoAccount) {
		cause = process.CauseNoUser
	}
	l.because(field, err, cause)
}

// because is add with the cause.
func (l *lack) because(field string, err error, cause process.CauseID) {
	if err == nil {
		return
	}
	if len(l.texts) == 0 {
		l.cause = cause
	}
	if field != "" {
		field += ": "
	}
	for line := range strings.SplitSeq(err.Error(), "\n") { // of errors.Join
		l.texts = append(l.texts, field+line)
	}
}

// err returns what is lacking in one line; nil if nothing is.
func (l *lack) err() error {
	if len(l.texts) == 0 {
		return nil
	}
	return process.Errorf(process.Failed, "%s", strings.Join(l.texts, "; ")).Because(l.cause)
}

// createGroup makes the control group of a run. If that fails, the run goes on: drover then finds its processes by
// descent and by mark.
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

// createProof makes the proof that tells whether a run has begun. Without a proof the command must not begin, because
// the next agent might run it again.
func (h *Host) createProof(id string) (proof *os.File, err error) {
	err = h.urgent(func() error {
		proof, err = h.proofs.Create(id)
		return err
	})
	if err != nil {
		return nil, instance.Unrecorded(err)
	}
	return proof, nil
}

// openOutput opens the files that a command writes to. The output of a process is in its log; every other command has
// an output of its own. output is nil if the files are the command's alone.
func (h *Host) openOutput(of process.ID, id, line string, spec *process.Spec,
	c *launch.Command,
) (output *launch.Output, err error) {
	if h.logs != nil && spec.Foreground() && line == process.Replacing(spec.Run) {
		if err = h.beginLog(of, id, spec, c); err == nil {
			return nil, nil //nolint:nilnil // the log keeps its files
		}
		h.log.Warn("cannot open log of process", "process", of, "error", err)
	}
	output, c.Output, err = h.createOutput(id)
	return output, err
}

// beginLog opens the log of a process for a command. Pipes become the account's, which may then open them by name.
func (h *Host) beginLog(of process.ID, id string, spec *process.Spec, c *launch.Command) (err error) {
	if c.Output, c.Errors, err = h.logs.Begin(of, id, spec); err != nil || !spec.Log.Pipes() {
		return err
	}
	c.Pipes = true
	for _, end := range []*os.File{c.Output, c.Errors} {
		err = errors.Join(err, end.Chown(int(c.Account.UID), -1))
	}
	if err != nil {
		closeOutput(c)
		c.Output, c.Errors, c.Pipes = nil, nil, false
	}
	return err
}

// closeOutput closes the files that only the command needs.
func closeOutput(c *launch.Command) {
	_ = c.Output.Close() // nothing was written to it here
	if c.Errors != nil {
		_ = c.Errors.Close()
	}
}

// createOutput makes the output file of a run. If the disk takes no file, the process must start all the same: its
// output is then dropped, and output is nil.
func (h *Host) createOutput(id string) (output *launch.Output, file *os.File, err error) {
	output, err = launch.CreateOutput(h.outputs, id)
	if err == nil {
		if err = output.Probe(); err == nil {
			return output, output.File(), nil
		}
		_ = output.Close()
	}
	_ = os.Remove(filepath.Join(h.outputs, id)) // a file that was created and takes no data
	h.log.Warn("dropping output of command", "run", id, "error", err)
	file, err = os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		return nil, nil, process.Errorf(process.Failed, "cannot drop the output of the command: %v", err)
	}
	return nil, file, nil
}

// runOf returns a run, which an earlier agent may have begun; its output is nil if the file is gone.
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
func (h *Host) Ran(id string) bool { return h.proofs.Ran(id) }

// Output implements operation.Commands. It releases everything that the run holds open.
func (h *Host) Output(id string) string {
	r := h.runOf(id)
	text := ""
	switch {
	case r.output != nil:
		text = r.output.Text()
	case h.logs != nil:
		text = h.logs.Text(id)
	}
	h.close(id)
	// The reader of the output knows that the command has run.
	h.removeProof(id)
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
	h.removeProof(id)
	h.remove(h.readyFile(id))
	if h.logs != nil {
		h.logs.Discard(id)
	}
	if group, ok := h.tree.Group(id); ok {
		_ = group.Remove() // a live process keeps the group; the next sweep removes it
		_ = group.Close()
	}
}

func (h *Host) removeProof(id string) {
	if err := h.proofs.Remove(id); err != nil {
		h.log.Warn("cannot remove the proof of a command", "run", id, "error", err)
	}
}

// remove removes a file if it exists.
func (h *Host) remove(path string) {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		h.log.Warn("cannot remove file of a command", "file", path, "error", err)
	}
}
