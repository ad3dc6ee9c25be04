package host

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"drover/internal/agent/instance"
	"drover/internal/agent/launch"
	"drover/internal/process"
)

// Preflight says, in a caller's words, why command lines of a spec could not start now; nil if nothing is known that
// prevents it. The error names all that this host lacks. It has no effect on the host. What a shell would call is not
// known, and is no failure. adopts says that drover is about to take the process over, with the runtime directory of
// its former supervisor. Preflight may take some seconds if a file system or the name service is slow.
func (h *Host) Preflight(of process.ID, spec *process.Spec, lines []instance.Line, adopts bool) error {
	var l lack
	look := h.runtime.preview
	if adopts {
		look = h.runtime.lookAdopting
	}
	account, variables := h.resolve(of, spec, look, &l)
	if account.Name != "" {
		l.add("", account.MayRun())
	}
	if spec.StrictLimits() {
		_, notes := launch.Nearest(spec.Execution())
		for _, note := range notes {
			l.because("limits.strict", errors.New(note), process.CauseNotInForce)
		}
	}
	l.because("environment", launch.Passes(spec.Execution(), variables), process.CauseNoVariables)
	if spec.Notifies() && h.notices == nil {
		l.add("", h.noNotices())
	}
	if l.err() == nil {
		for _, line := range lines {
			err := h.runnable(account, line.Line, spec.Dir(), variables)
			if line.Later && process.CauseOf(err) == process.CauseCommandMissing {
				continue
			}
			l.add(line.Field, err)
		}
	}
	l.because("log", h.room(), process.CauseLogFull)
	return l.err()
}

// runnable fails if an account certainly cannot execute the program of a command line, or if its file system hangs.
func (h *Host) runnable(account launch.Account, line, dir string, variables map[string]string) error {
	words, _ := process.Words(line)
	if len(words) == 0 {
		return nil
	}
	refused, err := within(h.files, account.Name, words[0], func() error {
		return account.MayExecute(line, dir, variables)
	})
	if err != nil {
		return process.Errorf(process.Failed, "%q %v", words[0], err).Because(process.CauseFileHangs)
	}
	return refused
}

// room fails if the directory of what commands write takes nothing more.
func (h *Host) room() error {
	var system unix.Statfs_t
	err := unix.Statfs(h.outputs, &system)
	if errors.Is(err, fs.ErrNotExist) { // somebody has removed it: a start makes it again
		err = unix.Statfs(filepath.Dir(h.outputs), &system)
	}
	switch {
	case err != nil:
		return fmt.Errorf("cannot write to the directory of its output: %w", &os.PathError{
			Op: "open", Path: h.outputs, Err: err,
		})
	case system.Flags&unix.ST_RDONLY != 0:
		return fmt.Errorf("the file system of %s is read-only", h.outputs)
	case system.Blocks > 0 && system.Bfree == 0, system.Files > 0 && system.Ffree == 0:
		return fmt.Errorf("the file system of %s is full", h.outputs)
	}
	return nil
}
