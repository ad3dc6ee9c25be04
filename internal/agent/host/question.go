package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"drover/internal/agent/cgroup"
	"drover/internal/agent/instance"
	"drover/internal/agent/launch"
	"drover/internal/agent/probe"
	"drover/internal/agent/procfs"
	"drover/internal/process"
)

const (
	// questionSuffix marks the runs of questions, so that one that outlived its agent is known and ended.
	questionSuffix = "-q"
	// keepOfAnswer is how much of the output of a question is kept, maxAnswer how much it may write, in bytes.
	keepOfAnswer = 4 << 10
	maxAnswer    = 1 << 20
	// endTime is how long the end of what an earlier agent has asked is waited for.
	endTime = time.Second
)

// question is a command that only asks. Its output goes through a pipe: unlike others it is not to outlive this agent,
// and a pipe holds what nobody reads back, where a file would fill the disk.
type question struct {
	host  *Host
	run   string
	child *launch.Child
	group *cgroup.Group
	pipe  *os.File
	full  chan struct{}
	// reader is waited for before output is read; heard says that nobody had the pipe open any more.
	reader sync.WaitGroup
	done   chan struct{}
	output []byte
	heard  bool
}

// Question implements probe.Host: the command is born in a control group of its own where there are any.
func (h *Host) Question(id, line string, spec *process.Spec) (probe.Question, error) {
	account, started, err := h.prepare(spec)
	if err != nil {
		return nil, err
	}
	defer started()
	id += questionSuffix
	// Before anything of it can be seen: a sweep takes away what belongs to no run under way.
	h.setRun(id, &run{})
	read, write, err := os.Pipe()
	if err != nil {
		h.close(id)
		return nil, process.Errorf(process.Failed, "cannot start the command: %v", err)
	}
	defer write.Close()
	q := &question{
		host: h, run: id, group: h.createGroup(id), pipe: read, full: make(chan struct{}),
		done: make(chan struct{}),
	}
	q.child, err = h.start(launch.Command{
		Line: line, Dir: spec.Identity.SetupPath, Account: account, Mark: id, Output: write, Proof: write,
		Group: q.group,
	})
	if err != nil {
		q.forget()
		return nil, err
	}
	q.reader.Go(q.read)
	return q, nil
}

// read takes in the output until nobody can write any more, until there is too much of it, or until the pipe is closed.
func (q *question) read() {
	defer close(q.done)
	buffer := make([]byte, 16<<10)
	for total := 0; ; {
		n, err := q.pipe.Read(buffer)
		total += n
		q.output = append(q.output, buffer[:min(n, keepOfAnswer-len(q.output))]...)
		if err != nil {
			q.heard = errors.Is(err, io.EOF)
			return
		}
		if total > maxAnswer {
			close(q.full)
			// Whoever goes on writing is told that nobody listens.
			q.pipe.Close()
			return
		}
	}
}

// Identity implements probe.Question.
func (q *question) Identity() procfs.Identity { return q.child.Identity() }

// Release implements probe.Question.
func (q *question) Release() error { return q.child.Release() }

// Full implements probe.Question.
func (q *question) Full() <-chan struct{} { return q.full }

// End implements probe.Question.
func (q *question) End(ctx context.Context) (left []int, err error) {
	q.child.Abandon()
	if !q.over() {
		_, left, err = q.host.EndTree(ctx, instance.Scope{Root: q.child.Identity(), Run: q.run}, 0)
		if errors.Is(err, instance.ErrBestEffort) {
			err = nil // nothing more can be done
		}
	}
	select {
	case <-q.done:
	case <-ctx.Done():
	}
	q.forget()
	if err != nil {
		return left, fmt.Errorf("cannot end the processes that %s has started: %w", q.run, err)
	}
	return left, nil
}

// over reports, where there are no control groups, that the command has ended and that nobody has its output open any
// more. To search all of /proc at the end of each question for what it may have left behind all the same would cost
// more than asking.
func (q *question) over() bool {
	if q.host.Groups() != cgroup.ModeNone || q.host.fs.Same(q.child.Identity()) {
		return false
	}
	select {
	case <-q.done:
		return q.heard
	default:
		return false
	}
}

// forget gives back what the question holds.
func (q *question) forget() {
	q.pipe.Close()
	q.reader.Wait()
	q.host.close(q.run)
	if q.group != nil {
		_ = q.group.Remove() // what still lives there keeps it, and the next sweep sees to it
		_ = q.group.Close()
	}
}

// Output implements probe.Question.
func (q *question) Output() string {
	// The gate writes an empty line before everything else.
	return strings.TrimPrefix(string(q.output), "\n")
}
