package list

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	v1 "drover/api/v1"
	"drover/client"
	"drover/internal/cli/remote"
	"drover/internal/cli/selection"
	"drover/internal/cli/term"
	"drover/internal/command"
	"drover/internal/process"
)

// The states that a caller can wait for.
const (
	untilRunning = "running"
	untilReady   = "ready"
	untilStopped = "stopped"
)

const (
	// waitLook is the time between two looks at the processes; an event brings the next look forward.
	waitLook = time.Second
	// waitSure is how long hosts have to tell what has happened before the question. An agent tells of an end at once.
	waitSure = time.Second
	// waitTime is how long 'drover wait' waits.
	waitTime = 5 * time.Minute
)

// NewWait returns 'drover wait'.
func NewWait() *cobra.Command {
	var s remote.Session
	var sel selection.Selection
	var until string
	cmd := &cobra.Command{
		Use:  "wait NAMESPACE/NAME...",
		Args: term.Args,
		RunE: func(cmd *cobra.Command, args []string) error {
			if !cmd.Flags().Changed("timeout") {
				s.Timeout = waitTime
			}
			c, err := s.Client(cmd)
			if err != nil {
				return err
			}
			if err := sel.ResolveFew(cmd.Context(), c); err != nil {
				return err
			}
			w := stateWait{session: &s, client: c, args: args, sel: &sel, until: until}
			return w.run(cmd.Context())
		},
		ValidArgsFunction: selection.CompleteProcesses(&s),
	}
	cmd.Flags().StringVar(&until, "for", untilReady, "state to wait for: running, ready or stopped")
	sel.Hosts.ChangeFlags(cmd, &s, "only on these hosts")
	sel.LabelFlag(cmd)
	term.Complete(cmd, "for", untilRunning, untilReady, untilStopped)
	s.WaitingFlags(cmd)
	cmd.PreRunE = term.Chain(cmd.PreRunE, func(*cobra.Command, []string) error {
		return term.OneOf("--for", until, untilRunning, untilReady, untilStopped)
	})
	return cmd
}

// stateWait waits for a state of processes.
type stateWait struct {
	session *remote.Session
	client  *client.Client
	args    []string
	sel     *selection.Selection
	until   string
}

// run looks again and again, and returns the exit code as an error. It survives a restart of the server. The first look
// alone ends no wait before its time: what it sees may be older than the question, as after a kill.
func (w *stateWait) run(ctx context.Context) error {
	asked, pause := time.Now(), waitLook
	if t := w.session.Timeout; t > 0 {
		pause = min(pause, t/4)
	}
	news := w.follow(ctx)
	left := "nothing is known yet"
	var seen bool // whether the last look could have ended the wait, and verdict is how
	var verdict error
	late := func() error {
		if seen && errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return verdict
		}
		return w.late(ctx, left)
	}
	for {
		sure := time.Since(asked) >= waitSure
		found, err := w.sel.Choose(ctx, w.client, w.args, false)
		if exit, ok := errors.AsType[*command.ExitError](err); ok && exit.Code == command.NoSuch &&
			w.begins(ctx) {
			found, err = nil, nil
		}
		_, away := errors.AsType[*client.UnreachableError](err)
		switch {
		case ctx.Err() != nil:
			return late()
		case err != nil && !away:
			return err
		case err != nil:
			left, seen = err.Error(), false
		case len(found) > 0:
			lacking := slices.DeleteFunc(found, w.holds)
			hopeless := w.hopeless(lacking)
			ends := (len(lacking) == 0 || hopeless != nil) && !w.isBusy(ctx)
			if ctx.Err() != nil { // the look before has seen more than half a look
				return late()
			}
			left, seen, verdict = describe(lacking), ends, hopeless
			if seen && sure {
				return verdict
			}
		default:
			seen = false
		}
		select {
		case <-time.After(pause):
		case <-news:
		case <-ctx.Done():
			return late()
		}
	}
}

// follow returns a channel that gets a value after events of the namespaces, at most a few times a second.
func (w *stateWait) follow(ctx context.Context) <-chan struct{} {
	news := make(chan struct{})
	var f client.EventFilter
	for _, arg := range w.args {
		namespace, _, _ := strings.Cut(arg, "/")
		f.Namespaces = append(f.Namespaces, namespace)
	}
	go func() {
		for _, err := range w.client.FollowEvents(ctx, f) {
			if err != nil {
				return // the looks go on without it
			}
			select {
			case news <- struct{}{}:
			case <-ctx.Done():
				return
			}
			select { // the state arrives with the event or just after it
			case <-time.After(waitLook / 4):
			case <-ctx.Done():
				return
			}
		}
	}()
	return news
}

// begins reports whether the first operation on processes that no host knows yet is under way.
func (w *stateWait) begins(ctx context.Context) bool {
	return !slices.ContainsFunc(w.args, func(arg string) bool { return !w.isOpen(ctx, arg) })
}

// isBusy reports whether an operation on the processes is open: their states may be from before it.
func (w *stateWait) isBusy(ctx context.Context) bool {
	return slices.ContainsFunc(w.args, func(arg string) bool { return w.isOpen(ctx, arg) })
}

// isOpen reports whether an operation on a process is queued or under way.
func (w *stateWait) isOpen(ctx context.Context, arg string) bool {
	namespace, name, err := term.SplitID(arg)
	if err != nil {
		return false
	}
	found, err := w.client.Why(ctx, client.WhyFilter{
		Namespace: namespace, Name: name, Hosts: w.sel.Names, Selector: w.sel.Selector, All: true,
	})
	return err == nil && slices.ContainsFunc(found.Findings, func(f v1.Finding) bool {
		return f.Cause.ID == string(process.CauseOperating) || f.Cause.ID == string(process.CauseQueued)
	})
}

// holds reports whether a process is in the state. What its host said before it went away does not count.
func (w *stateWait) holds(p v1.Process) bool {
	if p.Stale {
		return false
	}
	switch w.until {
	case untilStopped:
		failed := p.State == process.StateFinished && hasFailed(&p)
		return p.Instance == nil && !failed && slices.Contains([]string{
			process.StateStopped, process.StateFinished, process.StateGivenUp, process.StateScheduled,
		}, p.State)
	case untilReady:
		return runs(p) && !isUnready(p)
	}
	return runs(p)
}

// runs reports whether a process runs and no operation holds it.
func runs(p v1.Process) bool {
	return p.Instance != nil && p.State != process.StateOperating && p.State != process.StateStopping
}

// isUnready reports whether a process that runs is not ready. Another state may hide that.
func isUnready(p v1.Process) bool {
	is := func(c v1.Cause) bool { return c.ID == string(process.CauseNotReady) }
	return p.State == process.StateNotReady || p.Cause != nil && is(*p.Cause) || slices.ContainsFunc(p.Further, is)
}

// hopeless returns an error if a process cannot get to the state by itself, or if its single run has failed.
func (w *stateWait) hopeless(lacking []v1.Process) error {
	over := slices.DeleteFunc(slices.Clone(lacking), func(p v1.Process) bool {
		return p.Stale || !hasFailed(&p) || w.until == untilStopped && p.State == process.StateGivenUp
	})
	if len(over) == 0 {
		return nil
	}
	return &command.ExitError{Code: command.Failed, Err: errors.New(describe(over))}
}

// late is the error of a wait that ended before its state.
func (w *stateWait) late(ctx context.Context, left string) error {
	exit := &command.ExitError{Code: command.Unreachable}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		exit.Err = fmt.Errorf("not %s within %s: %s", w.until, w.session.Timeout, left)
	}
	return exit
}

// describe names the first of the processes with its state and message.
func describe(lacking []v1.Process) string {
	if len(lacking) == 0 {
		return "an operation is open"
	}
	p := lacking[0]
	text := fmt.Sprintf("%s/%s on %s is %s", p.Namespace, p.Name, p.Host.ID, stateOf(p))
	if p.Message != "" {
		text += ": " + p.Message
	}
	if more := len(lacking) - 1; more > 0 {
		text += fmt.Sprintf(" (and %d more)", more)
	}
	return term.Printable(text)
}
