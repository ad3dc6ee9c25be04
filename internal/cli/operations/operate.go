// Package operations has the commands that do something to processes, a file each: start and its like, task, rollout,
// schedule and upgrade. It waits for results and shows them.
package operations

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	v1 "drover/api/v1"
	"drover/client"
	"drover/internal/cli/remote"
	"drover/internal/cli/selection"
	"drover/internal/cli/term"
	"drover/internal/command"
	"drover/internal/process"
	"drover/internal/processfile"
)

// NewOperations returns a command for each operation on processes that are known already.
func NewOperations() (all []*cobra.Command) {
	for _, row := range process.Ops() {
		if row.HasCommand {
			all = append(all, newOperate(row))
		}
	}
	return all
}

func newOperate(v process.OpInfo) *cobra.Command {
	var a Command
	var sel selection.Selection
	cmd := &cobra.Command{
		Use: strings.Join(strings.Fields(string(v.Op)+" "+v.Argument+" NAMESPACE/NAME..."), " "),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.Client(cmd)
			if err != nil {
				return err
			}
			a.Op = string(v.Op)
			if v.Argument != "" {
				args = args[1:]
			}
			targets, err := a.targets(cmd, c, args, &sel)
			if err != nil {
				return err
			}
			a.Selector = sel.Selector
			if v.Op == process.Preflight {
				return a.preflight(cmd, c, targets)
			}
			return a.CarryOut(cmd, c, targets, nil)
		},
		ValidArgsFunction: selection.CompleteProcesses(&a.Session),
	}
	sel.ProcessFlags(cmd, &a.Session)
	if v.Argument != "" {
		cmd.Flags().StringVar(&a.scope, "scope", v1.ScopeProcess, "what gets the signal: process or tree")
	}
	switch {
	case v.Op == process.Start:
		a.startFlags(cmd)
	case v.Op == process.Preflight:
		preflightFlags(cmd, &a)
	case process.ForcedOp(v.Op) != v.Op:
		cmd.Flags().BoolVar(&a.force, "force", false, "go past the preflight: if the process cannot start, it is down afterwards")
	}
	switch v.Order {
	case process.AfterOthers:
		cmd.Flags().BoolVar(&a.withAfter, "with-after", false, "start the processes that these are after, too")
	case process.AfterOperations, process.BeforeOthers:
		cmd.Flags().BoolVar(&a.withDependents, "with-dependents", false,
			string(v.Op)+" the processes that are after these, too")
	case process.Unordered:
	}
	cmd.Flags().StringVar(&a.failedOf, "failed-of", "",
		"the failed targets of the task or rollout with this id, instead of names")
	a.OperateFlags(cmd)
	cmd.PreRunE = term.Chain(cmd.PreRunE, func(cmd *cobra.Command, args []string) error {
		return a.checkArgs(cmd, v, args)
	})
	if v.RollsOut {
		a.rollout.op = v
		a.rollout.flags(cmd, false)
		a.one.flags(cmd)
	}
	return cmd
}

// startFlags adds what only 'drover start' has.
func (a *Command) startFlags(cmd *cobra.Command) {
	a.copies.Flags(cmd)
	cmd.Flags().StringVar(&a.stoppedBy, "stopped-by", "",
		"the processes that the task or rollout with this id has stopped, instead of names")
}

// readSignal takes the signal off the arguments. It takes names with and without SIG, in any case.
func (a *Command) readSignal(args []string) (rest []string, err error) {
	var scoped error
	if a.scope != v1.ScopeProcess && a.scope != v1.ScopeTree {
		scoped = term.Usagef("--scope is %q: expected %s or %s", a.scope, v1.ScopeProcess, v1.ScopeTree)
	}
	if len(args) == 0 {
		return nil, errors.Join(scoped,
			term.Usagef("a signal is missing: expected a name such as HUP, and then NAMESPACE/NAME"))
	}
	if a.signal, err = process.ReadSignal(args[0]); err != nil {
		err = term.Usagef("%q is not a signal: expected a name such as HUP or USR1", args[0])
	}
	return args[1:], errors.Join(scoped, err)
}

// checkArgs tells all faults of the arguments. It leaves names of processes to the server.
func (a *Command) checkArgs(cmd *cobra.Command, v process.OpInfo, args []string) error {
	var faults []error
	if v.Argument != "" {
		rest, err := a.readSignal(args)
		if faults = append(faults, err); len(args) == 0 {
			return err
		}
		args = rest
	}
	switch {
	case a.failedOf != "" && a.stoppedBy != "":
		faults = append(faults, term.Usagef("--failed-of and --stopped-by exclude each other"))
	case a.failedOf != "" && len(args) > 0:
		faults = append(faults, term.Usagef("--failed-of excludes names of processes: %s", args[0]))
	case a.stoppedBy != "" && len(args) > 0:
		faults = append(faults, term.Usagef("--stopped-by excludes names of processes: %s", args[0]))
	case a.failedOf == "" && a.stoppedBy == "" && len(args) == 0:
		faults = append(faults, term.Usagef("%s: NAMESPACE/NAME is missing", cmd.CommandPath()))
	}
	return errors.Join(faults...)
}

// targets returns the processes that the command operates on.
func (a *Command) targets(cmd *cobra.Command, c *client.Client, args []string, sel *selection.Selection,
) ([]selection.ProcessRef, error) {
	var targets []selection.ProcessRef
	if of := cmp.Or(a.failedOf, a.stoppedBy); of != "" {
		find := remote.FailedOf
		if a.stoppedBy != "" {
			find = remote.StoppedBy
		}
		results, err := find(cmd.Context(), cmd, c, of)
		if err != nil {
			return nil, err
		}
		return sel.OfResults(cmd, c, of, results)
	}
	found, err := sel.Choose(cmd.Context(), c, args, false)
	if err != nil {
		return nil, err
	}
	if a.withAfter || a.withDependents {
		if found, err = withRelated(cmd.Context(), c, found, a.withDependents); err != nil {
			return nil, err
		}
	}
	for _, p := range found {
		targets = append(targets, selection.ProcessRef{Namespace: p.Namespace, Name: p.Name, Host: p.Host.ID})
	}
	return targets, nil
}

// withRelated adds, on the hosts of the processes, what they are after, or what is after them: directly or over others.
func withRelated(ctx context.Context, c *client.Client, found []v1.Process, dependents bool) (
	[]v1.Process, error,
) {
	var hosts []string
	for _, p := range found {
		if !slices.Contains(hosts, p.Host.ID) {
			hosts = append(hosts, p.Host.ID)
		}
	}
	all, err := client.Collect(c.Processes(ctx, client.ProcessFilter{Hosts: hosts, Spec: true}))
	if err != nil {
		return nil, remote.ExitOf(err)
	}
	known := map[selection.ProcessRef]v1.Process{}
	related := map[selection.ProcessRef][]selection.ProcessRef{}
	copies := map[selection.ProcessRef][]selection.ProcessRef{}
	for _, p := range all {
		self := selection.ProcessRef{Namespace: p.Namespace, Name: p.Name, Host: p.Host.ID}
		known[self] = p
		copies[self.Of()] = append(copies[self.Of()], self)
	}
	for self, p := range known {
		if p.Spec == nil {
			continue
		}
		for name := range p.Spec.After {
			id := process.Peer(process.ID{Namespace: p.Namespace, Name: p.Name}, name)
			other := selection.ProcessRef{Namespace: id.Namespace, Name: id.Name, Host: p.Host.ID}
			if dependents {
				related[other] = append(related[other], self)
			} else {
				related[self] = append(append(related[self], other), copies[other]...)
			}
		}
	}
	taken := map[selection.ProcessRef]bool{}
	for _, p := range found {
		taken[selection.ProcessRef{Namespace: p.Namespace, Name: p.Name, Host: p.Host.ID}] = true
	}
	for i := 0; i < len(found); i++ {
		self := selection.ProcessRef{Namespace: found[i].Namespace, Name: found[i].Name, Host: found[i].Host.ID}
		for _, other := range slices.Concat(related[self], related[self.Of()]) {
			if p, ok := known[other]; ok && !taken[other] {
				taken[other], found = true, append(found, p)
			}
		}
	}
	selection.SortProcesses(found)
	return found, nil
}

// preflightFlags adds what only 'drover preflight' has.
func preflightFlags(cmd *cobra.Command, a *Command) {
	cmd.Flags().StringVarP(&a.file, "file", "f", "",
		"ask with the specs of this file: a process file, or the fields of one process; - reads stdin")
}

// preflight asks about the targets, with their own specs or those of the file. It asks about all, also if one fails.
func (a *Command) preflight(cmd *cobra.Command, c *client.Client, targets []selection.ProcessRef) error {
	a.Yes = true // it ends nothing
	if a.file == "" {
		return allOrNothing(a.CarryOut(cmd, c, targets, nil))
	}
	data, err := ReadFile(cmd.InOrStdin(), a.file)
	if err != nil {
		return err
	}
	of, err := specsIn(a.file, data, targets)
	if err != nil {
		return err
	}
	var failed error
	for _, t := range byProcess(targets) {
		own := slices.DeleteFunc(slices.Clone(targets), func(r selection.ProcessRef) bool {
			return r.Namespace != t.Namespace || r.Name != t.Name
		})
		err := allOrNothing(a.CarryOut(cmd, c, own, of[t.Namespace+"/"+t.Name]))
		if exit, ok := errors.AsType[*command.ExitError](err); err != nil && (!ok || exit.Code != command.Failed) {
			return err
		}
		failed = errors.Join(failed, err)
	}
	if failed != nil {
		return &command.ExitError{Code: command.Failed}
	}
	return nil
}

// allOrNothing is the result of a question that only some targets have passed.
func allOrNothing(err error) error {
	if exit, ok := errors.AsType[*command.ExitError](err); ok && exit.Code == command.Partial {
		return &command.ExitError{Code: command.Failed, Err: exit.Err}
	}
	return err
}

// specsIn returns the specs of the targets: those of a process file, or the one of a file with the fields of one
// process.
func specsIn(file string, data []byte, targets []selection.ProcessRef) (map[string]*v1.Spec, error) {
	of := map[string]*v1.Spec{}
	if one, err := processfile.ReadSpec(file, data); err == nil {
		for _, t := range targets {
			of[t.ID()] = &one
		}
		return of, nil
	}
	docs, err := processfile.Read(file, data)
	if err != nil {
		return nil, term.Usagef("%s is not a valid process file:\n  %s", file,
			strings.ReplaceAll(err.Error(), "\n", "\n  "))
	}
	for _, t := range targets {
		for _, d := range docs {
			if d.Namespace != t.Namespace {
				continue
			}
			for _, p := range Chosen(d.Processes, t.Name) {
				spec := p.Spec
				spec.Hosts, spec.Copies, spec.Rollout = v1.Hosts{}, nil, nil
				of[t.ID()] = &spec
			}
		}
		if of[t.ID()] == nil {
			return nil, term.NoSuchf("%s has no process %s", file, t.ID())
		}
	}
	return of, nil
}
