package operations

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	v1 "drover/api/v1"
	"drover/client"
	"drover/internal/cli/remote"
	"drover/internal/cli/selection"
	"drover/internal/cli/term"
	"drover/internal/command"
	"drover/internal/process"
	"drover/internal/processfile"
)

// Command is an operation from the confirmation to the summary.
type Command struct {
	remote.Session
	Op string
	// signal and scope are those of the operation signal.
	signal, scope string
	copies        CopyFlags
	// force goes past the preflight. file has the spec of an operation that takes one.
	force               bool
	file                string
	failedOf, stoppedBy string
	// Selector is the expression that chose the hosts; empty if there was none.
	Selector string
	Yes      bool
	NoWait   bool
	DryRun   bool
	// ReadStdin says that stdin was a file: a person answers at the terminal of the process.
	ReadStdin bool
	// withAfter adds what the targets are after, withDependents what is after them.
	withAfter, withDependents bool
	// hostTimeout is how long each host has to accept the operation; 0 means the server's default.
	hostTimeout time.Duration
	rollout     RolloutFlags
	one         oneOfFlags
}

// OperateFlags adds the flags of commands that carry out an operation.
func (a *Command) OperateFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.BoolVarP(&a.Yes, "yes", "y", false, "do not ask for confirmation")
	f.BoolVar(&a.NoWait, "no-wait", false, "print the task's id and do not wait for it")
	f.BoolVar(&a.DryRun, "dry-run", false, "check the command, print its targets, and do nothing")
	f.DurationVar(&a.hostTimeout, "host-timeout", 0, "how long each host has to accept the operation, such as 5s")
	cmd.PreRunE = term.Chain(cmd.PreRunE, func(*cobra.Command, []string) error { return a.bounded() })
	a.WaitingFlags(cmd, term.AsTable, term.AsJSON, term.AsYAML, term.AsName)
}

// CopyFlags say what a start does beside copies that drover does not watch.
type CopyFlags struct{ TakeOver, Beside bool }

// Flags adds the flags that say what a start does beside a copy that drover does not watch.
func (c *CopyFlags) Flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.BoolVar(&c.TakeOver, "take-over", false, "watch a copy that another program started as the process, as it runs")
	f.BoolVar(&c.Beside, "beside", false, "start a process beside copies that another program started")
	cmd.PreRunE = term.Chain(cmd.PreRunE, func(*cobra.Command, []string) error {
		if c.TakeOver && c.Beside {
			return term.Usagef("--take-over and --beside exclude each other")
		}
		return nil
	})
}

// longestHostTimeout is the longest --host-timeout.
const longestHostTimeout = 10 * time.Minute

func (a *Command) bounded() error {
	if a.hostTimeout != 0 && (a.hostTimeout < time.Second || a.hostTimeout > longestHostTimeout ||
		a.hostTimeout%time.Second != 0) {
		return term.Usagef("--host-timeout is %s: expected whole seconds from 1s to %s", a.hostTimeout,
			longestHostTimeout)
	}
	return nil
}

// CarryOut asks for confirmation, submits, waits and reports the results.
func (a *Command) CarryOut(
	cmd *cobra.Command, c *client.Client, targets []selection.ProcessRef, spec *v1.Spec,
) error {
	if !a.DryRun {
		if err := a.confirm(cmd, targets); err != nil {
			return err
		}
	}
	plan, err := a.rollout.plan()
	if err != nil {
		return err
	}
	request := v1.Request{
		Op: a.Op, Targets: byProcess(targets), Spec: spec, Signal: a.signal, Scope: a.scope,
		TakeOver: a.copies.TakeOver, Beside: a.copies.Beside, Force: a.force,
		HostTimeout: int(a.hostTimeout / time.Second), Select: a.Selector, Rollout: plan, At: a.rollout.At,
		OneOf: a.one.oneOf, AgainWhenLost: a.one.again,
	}
	switch {
	case a.DryRun:
		p, err := c.PlanOperation(cmd.Context(), request)
		if err != nil {
			return remote.ExitOf(err)
		}
		return a.showPlan(cmd, c, p)
	case request.Rollout != nil || request.OneOf:
		return a.rollOut(cmd, c, request)
	}
	o, err := a.submit(cmd.Context(), c, request)
	if err != nil {
		return err
	}
	if less := len(targets) - o.Counts.Targets; less > 0 && a.Selector != "" {
		term.Say(cmd, "%s no longer on a host that matches %s: left out\n",
			process.Count(less, "target is", "targets are"), a.Selector)
	}
	if a.NoWait {
		_, err := fmt.Fprintln(cmd.OutOrStdout(), o.ID)
		return err
	}
	w := Waiter{Session: &a.Session}
	return w.Finish(cmd, c, o)
}

// showPlan prints what a request would do.
func (a *Command) showPlan(cmd *cobra.Command, c *client.Client, p v1.OperationPlan) error {
	refusal := Refused(p.Refused, p.Reason)
	if a.Form == term.AsJSON || a.Form == term.AsYAML {
		return cmp.Or(term.PrintValue(cmd.OutOrStdout(), a.Form, p), refusal)
	}
	t := term.Table{}
	for _, target := range p.Targets {
		for _, host := range target.Hosts {
			t.Add(target.Namespace+"/"+target.Name, host)
		}
	}
	if err := t.Write(cmd.OutOrStdout()); err != nil {
		return err
	}
	switch r := p.Rollout; {
	case r == nil:
	case r.OneOf:
		term.Say(cmd, "%s the process %s on one of %s\n", r.Op, processesOf(r.Processes),
			process.Count(r.Counts.Hosts, "host", "hosts"))
	default:
		term.Say(cmd, "%s\n", PlannedLine(r))
		SayOrder(cmd, c, r)
	}
	if len(p.Away) > 0 {
		term.Say(cmd, "not connected: %s\n", FirstOf(p.Away, 10))
	}
	if p.Reason != "" && refusal == nil {
		term.Say(cmd, "%s\n", a.AgainQuoted(p.Reason))
	}
	return refusal
}

// Refused returns the error with which the server would answer the call of a plan; nil if the status is 0.
func Refused(status int, reason string) error {
	if status == 0 {
		return nil
	}
	return remote.ExitOf(&v1.Problem{Status: status, Detail: reason})
}

// submit submits an operation. Ctrl-C does not interrupt it, because the caller must know whether the server accepted
// the operation.
func (a *Command) submit(ctx context.Context, c *client.Client, r v1.Request) (v1.Task, error) {
	return Uninterrupted(ctx, func(ctx context.Context) (v1.Task, error) { return c.Submit(ctx, r) },
		a.Again("task list"))
}

// Uninterrupted makes a call that Ctrl-C does not interrupt, because the caller must know whether the server accepted
// it. The deadline of the command stays. check is the command that tells what became of a call without an answer.
func Uninterrupted[T any](ctx context.Context, call func(context.Context) (T, error), check string) (T, error) {
	deadline, bounded := ctx.Deadline()
	ctx = context.WithoutCancel(ctx)
	if bounded {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, deadline)
		defer cancel()
	}
	answer, err := call(ctx)
	if unreachable, ok := errors.AsType[*client.UnreachableError](err); ok {
		err = fmt.Errorf("%w; the server may have accepted the call: check with %s", unreachable, check)
	}
	return answer, remote.ExitOf(err)
}

// byProcess groups the targets by process.
func byProcess(targets []selection.ProcessRef) []v1.Target {
	var all []v1.Target
	place := map[string]int{}
	for _, t := range targets {
		i, ok := place[t.ID()]
		if !ok {
			i = len(all)
			place[t.ID()] = i
			all = append(all, v1.Target{Namespace: t.Namespace, Name: t.Name})
		}
		all[i].Hosts = append(all[i].Hosts, t.Host)
	}
	return all
}

// confirm shows the count of targets, and asks for confirmation if there is more than one process.
func (a *Command) confirm(cmd *cobra.Command, targets []selection.ProcessRef) error {
	hosts := map[string]bool{}
	for _, t := range targets {
		hosts[t.Host] = true
	}
	where, which := process.Count(len(hosts), "host", "hosts"), process.Count(len(targets), "process", "processes")
	if a.one.oneOf {
		named := byProcess(targets)
		if len(named) > 1 {
			return term.Usagef("--one-of is for one process: %s and others match", selection.ProcessRef{
				Namespace: named[0].Namespace, Name: named[0].Name,
			}.ID())
		}
		where, which = "one of "+where, "the process "+named[0].Namespace+"/"+named[0].Name
	}
	what := fmt.Sprintf("%s %s on %s", a.Op, which, where)
	switch {
	case len(targets) == 1:
		return nil
	case a.Yes:
		term.Say(cmd, "%s\n", what)
		return nil
	}
	return a.AskFirst(cmd, what, len(targets))
}

// AskFirst asks a person for confirmation of what concerns count processes or changes.
func (a *Command) AskFirst(cmd *cobra.Command, what string, count int) error {
	in := cmd.InOrStdin()
	if a.ReadStdin {
		if tty, err := os.Open("/dev/tty"); err == nil {
			defer tty.Close() //nolint:errcheck // it was only read
			in = tty
		}
	}
	return a.Ask(cmd, in, what, count)
}

// RolloutFlags are the flags of an operation or an apply that spreads over its hosts in batches.
type RolloutFlags struct {
	batch, maxFailures, maxUnavailable, order, At string
	canarySelect, spread                          string
	canary                                        int
	bake, pause                                   time.Duration
	skipAway, canaryApproval, undoOnFailure       bool
	Set                                           *pflag.FlagSet
	// op is the operation, if there is only one. file says that a file may have the batch.
	op   process.OpInfo
	file bool
}

// pace adds the flags of a plan that a rollout may change on its way.
func (r *RolloutFlags) pace(cmd *cobra.Command) {
	r.paceFlags(cmd)
	r.file = true // the rollout has a batch
	cmd.PreRunE = term.Chain(cmd.PreRunE, func(*cobra.Command, []string) error {
		if len(r.Fields()) == 0 {
			return term.Usagef("nothing is to change: give --batch, --bake, --pause, --max-failures or --max-unavailable")
		}
		_, err := r.plan()
		return err
	})
}

func (r *RolloutFlags) paceFlags(cmd *cobra.Command) {
	r.Set = pflag.NewFlagSet("rollout", pflag.ContinueOnError)
	f := r.Set
	f.StringVar(&r.batch, "batch", "", "go through the hosts in batches of this size, such as 20 or 10%")
	term.LengthVar(f, &r.bake, "bake", 0, "how long the processes of a batch must stay well, such as 60s")
	term.LengthVar(f, &r.pause, "pause", 0, "wait before the next batch, after --bake, such as 30s")
	f.StringVar(&r.maxFailures, "max-failures", "", "hosts that may fail, such as 3 or 5%; default none")
	f.StringVar(&r.maxUnavailable, "max-unavailable", "", "hosts that may be down at the same time, such as 3 or 5%")
	cmd.Flags().AddFlagSet(f)
}

// flags adds the flags. An apply may have the batch in its file.
func (r *RolloutFlags) flags(cmd *cobra.Command, file bool) {
	r.paceFlags(cmd)
	f := r.Set
	f.IntVar(&r.canary, "canary", 0, "hosts of the first batch, of which none may fail")
	f.StringVar(&r.canarySelect, "canary-select", "", "take the canaries from the hosts that match, such as ring=early")
	f.BoolVar(&r.canaryApproval, "canary-approval", false, "wait after the canaries until another person approves")
	f.StringVar(&r.order, "order", "", "the label or fact that sorts the hosts")
	f.StringVar(&r.spread, "spread", "", "spread each batch over the values of this label or fact, such as zone")
	f.BoolVar(&r.skipAway, "skip-away", false, "leave out hosts that are not connected")
	cmd.Flags().AddFlagSet(f)
	cmd.Flags().StringVar(&r.At, "at", "",
		"begin the rollout at this time of day in the server's time zone, such as 03:00, or at a time in RFC 3339")
	r.file = file
	cmd.PreRunE = term.Chain(cmd.PreRunE, func(*cobra.Command, []string) error {
		_, err := r.plan()
		if !r.file {
			err = errors.Join(r.Batched(cmd.Flags().Changed("one-of")), err)
		}
		return err
	})
}

// ApplyFlags adds the flags of an apply.
func (r *RolloutFlags) ApplyFlags(cmd *cobra.Command) {
	r.flags(cmd, true)
	r.Set.BoolVar(&r.undoOnFailure, "undo-on-failure", false,
		"undo the apply by itself when more hosts fail than may fail")
	cmd.Flags().AddFlagSet(r.Set)
}

// Batched rejects flags of a rollout if there is none. An operation on one of the hosts has none. without are the
// processes of files that have none, if other processes of the files have one.
func (r *RolloutFlags) Batched(oneOf bool, without ...string) error {
	var given []string
	for name := range r.Fields() {
		given = append(given, strings.ReplaceAll(name, "_", "-"))
	}
	if r.At != "" {
		given = append(given, "at")
	}
	slices.Sort(given)
	flags := strings.Join(given, ", --")
	switch {
	case r.batch != "" || len(given) == 0:
		return nil
	case oneOf:
		return term.Usagef("--one-of and --%s exclude each other", flags)
	case len(without) > 0:
		return term.Usagef("--%s: the rollout of the file is not for %s: give --batch", flags, processesOf(without))
	case len(given) == 1:
		return term.Usagef("--%s is for a rollout: give --batch", flags)
	}
	return term.Usagef("--%s are for a rollout: give --batch", flags)
}

// Fields returns the given flags by the names of the fields in a file.
func (r *RolloutFlags) Fields() map[string]string {
	fields := map[string]string{}
	r.Set.VisitAll(func(f *pflag.Flag) {
		if f.Changed {
			fields[strings.ReplaceAll(f.Name, "-", "_")] = f.Value.String()
		}
	})
	return fields
}

// plan returns the plan of the flags; nil if there is none. Without a batch it also tells the faults of other flags.
func (r *RolloutFlags) plan() (*v1.RolloutPlan, error) {
	p, err := r.read()
	faults := []error{err}
	_, unread := v1.ParseHostCount(r.maxUnavailable)
	if r.maxUnavailable != "" && unread == nil && p.MaxUnavailable.IsZero() && (r.batch != "" || !r.file) {
		faults = append(faults, term.Usagef(
			"--max-unavailable %s: expected 1 or more, because one process at least is down meanwhile", r.maxUnavailable))
	}
	for _, f := range processfile.CheckRolloutOf(r.op, &p) {
		_, unread := v1.ParseHostCount(r.batch)
		switch {
		case f.Path == "batch" && unread != nil: // its fault is told already, or it is not given
		case strings.HasPrefix(f.Path, "canary_") && p.Canary == 0 && r.batch == "" && r.file: // the file may have them
		default:
			faults = append(faults, term.Usagef("--%s %s", strings.ReplaceAll(f.Path, "_", "-"), f.Text))
		}
	}
	if err := errors.Join(faults...); err != nil || r.batch == "" {
		return nil, err
	}
	return &p, nil
}

// read returns the plan of the flags, also without a batch.
func (r *RolloutFlags) read() (v1.RolloutPlan, error) {
	p := v1.RolloutPlan{
		Canary: r.canary, Bake: v1.Duration(r.bake), Pause: v1.Duration(r.pause), Order: r.order,
		SkipAway: r.skipAway, CanaryApproval: r.canaryApproval, CanarySelect: r.canarySelect, Spread: r.spread,
		UndoOnFailure: r.undoOnFailure,
	}
	var faults []error
	for _, size := range []struct {
		name, text string
		to         *v1.HostCount
	}{
		{"batch", r.batch, &p.Batch},
		{"max-failures", r.maxFailures, &p.MaxFailures},
		{"max-unavailable", r.maxUnavailable, &p.MaxUnavailable},
	} {
		if size.text == "" {
			continue
		}
		var err error
		if *size.to, err = v1.ParseHostCount(size.text); err != nil {
			faults = append(faults, term.Usagef("--%s: %w", size.name, err))
		}
	}
	_, notOfDay := time.Parse("15:04", r.At)
	if at, err := term.Written(r.At); err == nil {
		r.At = at.Format(time.RFC3339Nano)
	} else if r.At != "" && notOfDay != nil {
		faults = append(faults, term.Usagef(
			"--at %q: expected a time of day such as 03:00, or a time such as 2026-11-20T03:00:00Z", r.At))
	}
	return p, errors.Join(faults...)
}

// PlannedLine says how a rollout will go through its hosts.
func PlannedLine(r *v1.Rollout) string {
	batches := 0
	for _, h := range r.Hosts {
		batches = max(batches, h.Batch+1)
	}
	text := fmt.Sprintf("in %s: %s on %s", process.Count(batches, "batch", "batches"),
		term.Printable(processesOf(r.Processes)), process.Count(r.Counts.Hosts, "host", "hosts"))
	if n := r.Plan.Canary; n > 0 {
		text += ", " + process.Count(n, "canary", "canaries")
	}
	if r.Plan.Bake > 0 {
		text += ", bake " + r.Plan.Bake.String()
	}
	if r.At != nil {
		text += ", at " + r.At.Local().Format(time.RFC3339)
	}
	return text
}

// HostsOf returns the chosen hosts, and the session in which they were found. If other words of the command are wrong,
// it returns their faults, beside those that the server finds in the choice of hosts.
func (a *Command) HostsOf(cmd *cobra.Command, hosts *remote.Hosts, wrong error) (
	[]string, *client.Client, error,
) {
	c, err := a.Client(cmd)
	if err != nil {
		return nil, nil, cmp.Or(wrong, err)
	}
	ctx := cmd.Context() // with the --timeout of the session
	if wrong != nil {
		within, cancel := context.WithTimeout(ctx, AskForFaults)
		defer cancel()
		ctx = within
	}
	found, err := hosts.IDs(ctx, c)
	if wrong == nil {
		return found, c, err
	}
	if refusal, ok := errors.AsType[*command.ExitError](err); ok && refusal.Code == command.NoSuch {
		wrong = errors.Join(wrong, err)
	}
	return nil, nil, wrong
}
