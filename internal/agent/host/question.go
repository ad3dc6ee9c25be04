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
	"drover/internal/process"
)

const (
	// questionSuffix marks the runs of questions, so that drover recognises and ends a question that outlived its
	// agent.
	questionSuffix = "-q"
	// keepOfAnswer is how much drover keeps of the output of a question; maxAnswer is how much the question may write.
	// Both are in bytes.
	keepOfAnswer = 4 << 10
	maxAnswer    = 1 << 20
	// endTime is how long drover waits for the end of an earlier agent's question.
	endTime = time.Second
)

// question is a command of a probe. Its output goes through a pipe and not a file: it need not outlive this agent, and
// output that nobody reads cannot fill the disk.
type question struct {
	host  *Host
	run   string
	child *launch.Child
	group *cgroup.Group
	pipe  *os.File
	full  chan struct{}
	// Wait for reader before a read of output. heard says that nobody has the other end of the pipe open any more.
	reader sync.WaitGroup
	done   chan struct{}
	output []byte
	heard  bool
}

// Question implements probe.Host. The command is born in a control group of its own if the host has control groups.
func (h *Host) Question(of process.ID, id, line string, spec *process.Spec) (probe.Question, error) {
	command, started, err := h.prepare(of, spec)
	if err != nil {
		return nil, err
	}
	defer started()
	id += questionSuffix
	// Do this before anything of the run is visible: a sweep removes everything that belongs to no run under way.
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
	command.Line, command.Mark, command.Output, command.Proof, command.Group = line, id, write, write, q.group
	q.child, err = h.start(command)
	if err != nil {
		q.forget()
		return nil, err
	}
	q.reader.Go(q.read)
	return q, nil
}

// read reads the output until all writers have closed the pipe, until there is too much output, or until the pipe is
// closed here.
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
			// A process that goes on writing gets SIGPIPE.
			q.pipe.Close()
			return
		}
	}
}

// Identity implements probe.Question.
func (q *question) Identity() instance.Identity { return q.child.Identity() }

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
			err = nil // there is nothing more to do
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

// over reports, on a host without control groups, that the command has ended and that nobody has its output open. A
// search of all of /proc for leftovers would cost more than the question itself.
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

// forget releases what the question holds.
func (q *question) forget() {
	q.pipe.Close()
	q.reader.Wait()
	q.host.close(q.run)
	if q.group != nil {
		_ = q.group.Remove() // a live process keeps the group; the next sweep removes it
		_ = q.group.Close()
	}
}

// Output implements probe.Question.
func (q *question) Output() string {
	// The gate writes an empty line first.
	return strings.TrimPrefix(string(q.output), "\n")
}
