package processes

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

	"drover/client"
	"drover/internal/cli/remote"
	"drover/internal/cli/term"
	"drover/internal/process"
	"drover/internal/processfile"
)

// operateCommand is an operation from the confirmation to the summary.
type operateCommand struct {
	remote.Session
	op string
	// signal and scope are those of the operation signal.
	signal, scope string
	copies        copyFlags
	// force goes past the preflight. file has the spec of an operation that takes one.
	force               bool
	file                string
	failedOf, stoppedBy string
	// selector is the expression that chose the hosts; empty if there was none.
	selector string
	yes      bool
	noWait   bool
	dryRun   bool
	// readStdin says that stdin was a file: a person answers at the terminal of the process.
	readStdin bool
	// withAfter adds what the targets are after, withDependents what is after them.
	withAfter, withDependents bool
	// hostTimeout is how long each host has to accept the operation; 0 means the server's default.
	hostTimeout time.Duration
	rollout     rolloutFlags
	one         oneOfFlags
}

func (a *operateCommand) operateFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.BoolVarP(&a.yes, "yes", "y", false, "do not ask for confirmation")
	f.BoolVar(&a.noWait, "no-wait", false, "print the task's id and do not wait for it")
	f.BoolVar(&a.dryRun, "dry-run", false, "check the command, print its targets, and do nothing")
	f.DurationVar(&a.hostTimeout, "host-timeout", 0, "how long each host has to accept the operation, such as 5s")
	cmd.PreRunE = term.Chain(cmd.PreRunE, func(*cobra.Command, []string) error { return a.bounded() })
	a.WaitingFlags(cmd, term.AsTable, term.AsJSON, term.AsYAML, term.AsName)
}

// copyFlags say what a start does beside copies that drover does not watch.
type copyFlags struct{ takeOver, beside bool }

func (c *copyFlags) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.BoolVar(&c.takeOver, "take-over", false, "watch a copy that another program started as the process, as it runs")
	f.BoolVar(&c.beside, "beside", false, "start a process beside copies that another program started")
	cmd.PreRunE = term.Chain(cmd.PreRunE, func(*cobra.Command, []string) error {
		if c.takeOver && c.beside {
			return term.Usagef("--take-over and --beside exclude each other")
		}
		return nil
	})
}

// longestHostTimeout is the longest --host-timeout.
const longestHostTimeout = 10 * time.Minute

func (a *operateCommand) bounded() error {
	if a.hostTimeout != 0 && (a.hostTimeout < time.Second || a.hostTimeout > longestHostTimeout ||
		a.hostTimeout%time.Second != 0) {
		return term.Usagef("--host-timeout is %s: expected whole seconds from 1s to %s", a.hostTimeout,
			longestHostTimeout)
	}
	return nil
}

// carryOut asks for confirmation, submits, waits and reports the results.
func (a *operateCommand) carryOut(cmd *cobra.Command, c *client.Client, targets []processRef, spec *client.Spec) error {
	if !a.dryRun {
		if err := a.confirm(cmd, targets); err != nil {
			return err
		}
	}
	plan, err := a.rollout.plan()
	if err != nil {
		return err
	}
	request := client.Request{
		Op: a.op, Targets: byProcess(targets), Spec: spec, Signal: a.signal, Scope: a.scope,
		TakeOver: a.copies.takeOver, Beside: a.copies.beside, Force: a.force,
		HostTimeout: int(a.hostTimeout / time.Second), Select: a.selector, Rollout: plan, At: a.rollout.at,
		OneOf: a.one.oneOf, AgainWhenLost: a.one.again,
	}
	switch {
	case a.dryRun:
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
	if less := len(targets) - o.Counts.Targets; less > 0 && a.selector != "" {
		term.Say(cmd, "%s no longer on a host that matches %s: left out\n",
			process.Count(less, "target is", "targets are"), a.selector)
	}
	if a.noWait {
		_, err := fmt.Fprintln(cmd.OutOrStdout(), o.ID)
		return err
	}
	w := waiter{session: &a.Session}
	return w.finish(cmd, c, o)
}

// showPlan prints what a request would do.
func (a *operateCommand) showPlan(cmd *cobra.Command, c *client.Client, p client.OperationPlan) error {
	refusal := refused(p.Refused, p.Reason)
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
		term.Say(cmd, "%s\n", plannedLine(r))
		sayOrder(cmd, c, r)
	}
	if len(p.Away) > 0 {
		term.Say(cmd, "not connected: %s\n", firstOf(p.Away, 10))
	}
	if p.Reason != "" && refusal == nil {
		term.Say(cmd, "%s\n", a.AgainQuoted(p.Reason))
	}
	return refusal
}

// refused returns the error with which the server would answer the call of a plan; nil if the status is 0.
func refused(status int, reason string) error {
	if status == 0 {
		return nil
	}
	return remote.ExitOf(&client.Error{Status: status, Detail: reason})
}

// submit submits an operation. Ctrl-C does not interrupt it, because the caller must know whether the server accepted
// the operation.
func (a *operateCommand) submit(ctx context.Context, c *client.Client, r client.Request) (client.Operation, error) {
	return uninterrupted(ctx, func(ctx context.Context) (client.Operation, error) { return c.Submit(ctx, r) },
		a.Again("task list"))
}

// uninterrupted makes a call that Ctrl-C does not interrupt, because the caller must know whether the server accepted
// it. The deadline of the command stays. check is the command that tells what became of a call without an answer.
func uninterrupted[T any](ctx context.Context, call func(context.Context) (T, error), check string) (T, error) {
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

// confirm shows the count of targets, and asks for confirmation if there is more than one process.
func (a *operateCommand) confirm(cmd *cobra.Command, targets []processRef) error {
	hosts := map[string]bool{}
	for _, t := range targets {
		hosts[t.host] = true
	}
	where, which := process.Count(len(hosts), "host", "hosts"), process.Count(len(targets), "process", "processes")
	if a.one.oneOf {
		named := byProcess(targets)
		if len(named) > 1 {
			return term.Usagef("--one-of is for one process: %s and others match", processRef{
				namespace: named[0].Namespace, name: named[0].Name,
			}.id())
		}
		where, which = "one of "+where, "the process "+named[0].Namespace+"/"+named[0].Name
	}
	what := fmt.Sprintf("%s %s on %s", a.op, which, where)
	switch {
	case len(targets) == 1:
		return nil
	case a.yes:
		term.Say(cmd, "%s\n", what)
		return nil
	}
	return a.ask(cmd, what, len(targets))
}

// ask asks a person for confirmation of what concerns count processes or changes.
func (a *operateCommand) ask(cmd *cobra.Command, what string, count int) error {
	in := cmd.InOrStdin()
	if a.readStdin {
		if tty, err := os.Open("/dev/tty"); err == nil {
			defer tty.Close() //nolint:errcheck // it was only read
			in = tty
		}
	}
	return a.Ask(cmd, in, what, count)
}

// rolloutFlags are the flags of an operation or an apply that spreads over its hosts in batches.
type rolloutFlags struct {
	batch, maxFailures, maxUnavailable, order, at string
	canarySelect, spread                          string
	canary                                        int
	bake, pause                                   time.Duration
	skipAway, canaryApproval, undoOnFailure       bool
	set                                           *pflag.FlagSet
	// op is the operation, if there is only one. file says that a file may have the batch.
	op   process.OpInfo
	file bool
}

// pace adds the flags of a plan that a rollout may change on its way.
func (r *rolloutFlags) pace(cmd *cobra.Command) {
	r.paceFlags(cmd)
	r.file = true // the rollout has a batch
	cmd.PreRunE = term.Chain(cmd.PreRunE, func(*cobra.Command, []string) error {
		if len(r.fields()) == 0 {
			return term.Usagef("nothing is to change: give --batch, --bake, --pause, --max-failures or --max-unavailable")
		}
		_, err := r.plan()
		return err
	})
}

func (r *rolloutFlags) paceFlags(cmd *cobra.Command) {
	r.set = pflag.NewFlagSet("rollout", pflag.ContinueOnError)
	f := r.set
	f.StringVar(&r.batch, "batch", "", "go through the hosts in batches of this size, such as 20 or 10%")
	term.LengthVar(f, &r.bake, "bake", 0, "how long the processes of a batch must stay well, such as 60s")
	term.LengthVar(f, &r.pause, "pause", 0, "wait before the next batch, after --bake, such as 30s")
	f.StringVar(&r.maxFailures, "max-failures", "", "hosts that may fail, such as 3 or 5%; default none")
	f.StringVar(&r.maxUnavailable, "max-unavailable", "", "hosts that may be down at the same time, such as 3 or 5%")
	cmd.Flags().AddFlagSet(f)
}

// flags adds the flags. An apply may have the batch in its file.
func (r *rolloutFlags) flags(cmd *cobra.Command, file bool) {
	r.paceFlags(cmd)
	f := r.set
	f.IntVar(&r.canary, "canary", 0, "hosts of the first batch, of which none may fail")
	f.StringVar(&r.canarySelect, "canary-select", "", "take the canaries from the hosts that match, such as ring=early")
	f.BoolVar(&r.canaryApproval, "canary-approval", false, "wait after the canaries until another person approves")
	f.StringVar(&r.order, "order", "", "the label or fact that sorts the hosts")
	f.StringVar(&r.spread, "spread", "", "spread each batch over the values of this label or fact, such as zone")
	f.BoolVar(&r.skipAway, "skip-away", false, "leave out hosts that are not connected")
	cmd.Flags().AddFlagSet(f)
	cmd.Flags().StringVar(&r.at, "at", "",
		"begin the rollout at this time of day in the server's time zone, such as 03:00, or at a time in RFC 3339")
	r.file = file
	cmd.PreRunE = term.Chain(cmd.PreRunE, func(*cobra.Command, []string) error {
		_, err := r.plan()
		if !r.file {
			err = errors.Join(r.batched(cmd.Flags().Changed("one-of")), err)
		}
		return err
	})
}

// applyFlags adds the flags of an apply.
func (r *rolloutFlags) applyFlags(cmd *cobra.Command) {
	r.flags(cmd, true)
	r.set.BoolVar(&r.undoOnFailure, "undo-on-failure", false,
		"undo the apply by itself when more hosts fail than may fail")
	cmd.Flags().AddFlagSet(r.set)
}

// batched rejects flags of a rollout if there is none. An operation on one of the hosts has none. without are the
// processes of files that have none, if other processes of the files have one.
func (r *rolloutFlags) batched(oneOf bool, without ...string) error {
	var given []string
	for name := range r.fields() {
		given = append(given, strings.ReplaceAll(name, "_", "-"))
	}
	if r.at != "" {
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

// fields returns the given flags by the names of the fields in a file.
func (r *rolloutFlags) fields() map[string]string {
	fields := map[string]string{}
	r.set.VisitAll(func(f *pflag.Flag) {
		if f.Changed {
			fields[strings.ReplaceAll(f.Name, "-", "_")] = f.Value.String()
		}
	})
	return fields
}

// plan returns the plan of the flags; nil if there is none. Without a batch it also tells the faults of other flags.
func (r *rolloutFlags) plan() (*client.RolloutPlan, error) {
	p, err := r.read()
	faults := []error{err}
	_, unread := client.ParseHostCount(r.maxUnavailable)
	if r.maxUnavailable != "" && unread == nil && p.MaxUnavailable.IsZero() && (r.batch != "" || !r.file) {
		faults = append(faults, term.Usagef(
			"--max-unavailable %s: expected 1 or more, because one process at least is down meanwhile", r.maxUnavailable))
	}
	for _, f := range processfile.CheckRolloutOf(r.op, &p) {
		_, unread := client.ParseHostCount(r.batch)
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
func (r *rolloutFlags) read() (client.RolloutPlan, error) {
	p := client.RolloutPlan{
		Canary: r.canary, Bake: client.Duration(r.bake), Pause: client.Duration(r.pause), Order: r.order,
		SkipAway: r.skipAway, CanaryApproval: r.canaryApproval, CanarySelect: r.canarySelect, Spread: r.spread,
		UndoOnFailure: r.undoOnFailure,
	}
	var faults []error
	for _, size := range []struct {
		name, text string
		to         *client.HostCount
	}{
		{"batch", r.batch, &p.Batch},
		{"max-failures", r.maxFailures, &p.MaxFailures},
		{"max-unavailable", r.maxUnavailable, &p.MaxUnavailable},
	} {
		if size.text == "" {
			continue
		}
		var err error
		if *size.to, err = client.ParseHostCount(size.text); err != nil {
			faults = append(faults, term.Usagef("--%s: %w", size.name, err))
		}
	}
	_, notOfDay := time.Parse("15:04", r.at)
	if at, err := term.Written(r.at); err == nil {
		r.at = at.Format(time.RFC3339Nano)
	} else if r.at != "" && notOfDay != nil {
		faults = append(faults, term.Usagef(
			"--at %q: expected a time of day such as 03:00, or a time such as 2026-11-20T03:00:00Z", r.at))
	}
	return p, errors.Join(faults...)
}
