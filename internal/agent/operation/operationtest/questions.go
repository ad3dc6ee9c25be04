package operationtest

import (
	"context"
	"errors"

	"drover/internal/agent/instance"
	"drover/internal/agent/probe"
	"drover/internal/process"
)

// question is a command that only asks.
type question struct {
	*command
	full chan struct{}
}

// Question implements probe.Host.
func (w *World) Question(id process.ID, run, line string, spec *process.Spec) (probe.Question, error) {
	if _, err := w.Launch(id, run, line, spec); err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return &question{command: w.runs[run], full: make(chan struct{})}, nil
}

// Release implements probe.Question.
func (q *question) Release() error {
	if q.script.Flood {
		close(q.full)
	}
	return q.command.Release()
}

// Full implements probe.Question.
func (q *question) Full() <-chan struct{} { return q.full }

// End implements probe.Question.
func (q *question) End(ctx context.Context) ([]int, error) {
	q.Abandon()
	_, left, err := q.w.EndTree(ctx, instance.Scope{Root: q.id, Run: q.run}, 0)
	if errors.Is(err, instance.ErrBestEffort) {
		err = nil
	}
	return left, err
}

// Output implements probe.Question.
func (q *question) Output() string { return q.w.Output(q.run) }
