package processes

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"drover/client"
	"drover/internal/cli/remote"
	"drover/internal/cli/term"
	"drover/internal/command"
	"drover/internal/process"
)

// operateCommand is an operation from the question to the summary.
type operateCommand struct {
	remote.Session
	op       string
	failedOf string
	yes      bool
	noWait   bool
	dryRun   bool
	// hostTimeout is how long each host has to take the operation; 0 leaves that to the server.
	hostTimeout time.Duration
}

func (a *operateCommand) operateFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.BoolVarP(&a.yes, "yes", "y", false, "do not ask for confirmation")
	f.BoolVar(&a.noWait, "no-wait", false, "print the task's id and do not wait for it")
	f.BoolVar(&a.dryRun, "dry-run", false, "print the targets, and do nothing")
	f.DurationVar(&a.hostTimeout, "host-timeout", 0, "how long each host has to accept the operation, such as 5s")
	cmd.PreRunE = term.Chain(cmd.PreRunE, func(*cobra.Command, []string) error { return a.bounded() })
	a.WaitingFlags(cmd, term.AsTable, term.AsJSON, term.AsYAML, term.AsName)
}

// longestHostTimeout is how long a host may have at most.
const longestHostTimeout = 10 * time.Minute

func (a *operateCommand) bounded() error {
	if a.hostTimeout != 0 && (a.hostTimeout < time.Second || a.hostTimeout > longestHostTimeout ||
		a.hostTimeout%time.Second != 0) {
		return term.Usagef("--host-timeout is %s: expected whole seconds from 1s to %s", a.hostTimeout,
			longestHostTimeout)
	}
	return nil
}

// carryOut asks, submits, waits and tells what came of it.
func (a *operateCommand) carryOut(cmd *cobra.Command, c *client.Client, targets []processRef, spec *client.Spec) error {
	if a.dryRun {
		t := term.Table{}
		for _, target := range targets {
			t.Add(target.id(), target.host)
		}
		return t.Write(cmd.OutOrStdout())
	}
	if err := a.confirm(cmd, targets); err != nil {
		return err
	}
	o, err := a.submit(cmd.Context(), c, client.Request{
		Op: a.op, Targets: byProcess(targets), Spec: spec,
		HostTimeout: int(a.hostTimeout / time.Second),
	})
	if err != nil {
		return err
	}
	if a.noWait {
		_, err := fmt.Fprintln(cmd.OutOrStdout(), o.ID)
		return err
	}
	w := waiter{session: &a.Session}
	return w.finish(cmd, c, o)
}

// submit hands an operation in. Ctrl-C does not cut it off: whether it was accepted has to be known.
func (a *operateCommand) submit(ctx context.Context, c *client.Client, r client.Request) (client.Operation, error) {
	deadline, bounded := ctx.Deadline()
	ctx = context.WithoutCancel(ctx)
	if bounded {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, deadline)
		defer cancel()
	}
	o, err := c.Submit(ctx, r)
	if unreachable, ok := errors.AsType[*client.UnreachableError](err); ok {
		err = fmt.Errorf("%w; the server may have accepted the call: check with %s", unreachable,
			a.Again("task list"))
	}
	return o, remote.ExitOf(err)
}

// byProcess puts the hosts of each process together.
func byProcess(targets []processRef) []client.Target {
	var all []client.Target
	place := map[string]int{}
	for _, t := range targets {
		i, ok := place[t.id()]
		if !ok {
			i = len(all)
			place[t.id()] = i
			all = append(all, client.Target{Namespace: t.namespace, Name: t.name})
		}
		all[i].Hosts = append(all[i].Hosts, t.host)
	}
	return all
}

// confirm tells how much is to be done, and asks where that is more than one process.
func (a *operateCommand) confirm(cmd *cobra.Command, targets []processRef) error {
	hosts := map[string]bool{}
	for _, t := range targets {
		hosts[t.host] = true
	}
	what := fmt.Sprintf("%s %s on %s", a.op, process.Count(len(targets), "process", "processes"),
		process.Count(len(hosts), "host", "hosts"))
	switch {
	case len(targets) == 1:
		return nil
	case a.yes:
		term.Say(cmd, "%s\n", what)
		return nil
	case !term.IsTerminal(cmd.InOrStdin()) || !term.IsTerminal(cmd.ErrOrStderr()):
		return term.Usagef("%s: no terminal to ask for confirmation: give --yes", what)
	}
	a.Bound(false) // a person takes the time that he takes
	defer a.Bound(true)
	term.Say(cmd, "%s? [y/N] ", what)
	answer := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(cmd.InOrStdin()).ReadString('\n') // without an answer it is no
		answer <- line
	}()
	select {
	case line := <-answer:
		if a := strings.ToLower(strings.TrimSpace(line)); a == "y" || a == "yes" {
			return nil
		}
	case <-cmd.Context().Done(): // the reader ends with the program
		term.Say(cmd, "\n")
	}
	return &command.ExitError{Code: command.Failed, Err: fmt.Errorf("nothing was done")}
}
