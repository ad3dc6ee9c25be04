// Package files has the commands about process files, a file each: apply, diff, edit, get, explain, register, import,
// revisions and drift.
package files

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	v1 "drover/api/v1"
	"drover/client"
	"drover/internal/cli/events"
	"drover/internal/cli/operations"
	"drover/internal/cli/remote"
	"drover/internal/cli/term"
	"drover/internal/command"
	"drover/internal/process"
	"drover/internal/processfile"
	"drover/internal/words"
)

// applyCommand is an apply from the files to the results.
type applyCommand struct {
	operations.Command
	files     []string
	docs      []processfile.Document
	noRestart bool
	force     bool
	prune     string
	copies    operations.CopyFlags
	// adopts is copies.takeOver that starts nothing. pids are those of the copies, by the name of the process.
	adopts bool
	pids   map[string]client.PID
	// tag is the state of the namespace that the file was made for; empty means any state.
	tag string
	// message is for the list of revisions. edits tells there that a person has edited one process.
	message string
	edits   bool
	// revision is one revision or two, which a diff compares.
	revision string
	rollout  operations.RolloutFlags
}

// NewApply returns 'drover apply'.
func NewApply() *cobra.Command {
	var a applyCommand
	cmd := &cobra.Command{
		Use:  "apply --file FILE...",
		Args: cobra.ArbitraryArgs,
		RunE: a.run,
	}
	a.fileFlags(cmd)
	f := cmd.Flags()
	f.BoolVarP(&a.Yes, "yes", "y", false, "do not ask for confirmation")
	f.BoolVar(&a.NoWait, "no-wait", false, "print the task's id and do not wait for it")
	f.BoolVar(&a.DryRun, "dry-run", false, "print the plan, and do nothing")
	a.messageFlag(cmd)
	a.copies.Flags(cmd)
	a.rollout.ApplyFlags(cmd)
	cmd.PreRunE = term.Chain(cmd.PreRunE, func(*cobra.Command, []string) error { return a.batched() })
	a.WaitingFlags(cmd, term.AsTable, term.AsJSON)
	return cmd
}

// NewDiff returns 'drover diff'.
func NewDiff() *cobra.Command {
	var a applyCommand
	cmd := &cobra.Command{
		Use:  "diff --file FILE...",
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if a.revision != "" {
				return a.compare(cmd, args)
			}
			a.DryRun = true
			err := a.run(cmd, args)
			if errors.Is(err, errNothing) {
				return nil
			} else if err == nil {
				err = &command.ExitError{Code: command.NotRunning}
			}
			return err
		},
	}
	a.fileFlags(cmd)
	cmd.Flags().StringVar(&a.revision, "revision", "", "compare a revision with the hosts, or two revisions: A or A..B")
	a.Session.Flags(cmd, term.AsTable, term.AsJSON)
	return cmd
}

// batched rejects flags of a rollout for processes whose files have none, also if nothing differs.
func (a *applyCommand) batched() error {
	var without []string
	rolls := false
	for _, d := range a.docs {
		for i := range d.Processes {
			p := &d.Processes[i]
			if rolls = rolls || p.Rollout != nil; p.Rollout == nil {
				without = append(without, d.Namespace+"/"+p.Name)
			}
		}
	}
	switch {
	case len(without) == 0:
		return nil
	case rolls:
		return a.rollout.Batched(false, without...)
	}
	return a.rollout.Batched(false)
}

func (a *applyCommand) messageFlag(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&a.message, "message", "m", "", "reason, in one line, for 'drover revisions'")
}

func (a *applyCommand) fileFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringArrayVarP(&a.files, "file", "f", nil, "process file, or directory with process files; - reads stdin")
	f.BoolVar(&a.force, "force", false, "restart also what fails its preflight: it may be down afterwards")
	f.BoolVar(&a.noRestart, "no-restart", false, "leave running processes running: changes wait for the next start")
	f.StringVar(&a.prune, "prune", "",
		"stop and remove processes that are not in the files; all also removes those of GSE and JOB callers")
	f.Lookup("prune").NoOptDefVal = client.PruneOwn
	cmd.PreRunE = term.Chain(cmd.PreRunE, func(cmd *cobra.Command, args []string) error {
		var faults []error
		if !cmd.Flags().Changed("file") && a.revision == "" {
			faults = append(faults, term.Usagef("%s: -f FILE is needed", cmd.CommandPath()))
		}
		if a.prune != "" {
			faults = append(faults, term.OneOf("--prune", a.prune, client.PruneOwn, client.PruneAll))
		}
		if a.revision == "" { // arguments are further files, so that a pattern of the shell can follow -f
			docs, wrong, err := readFiles(cmd.InOrStdin(), append(a.files, args...))
			if a.docs = docs; len(wrong) > 0 {
				if c, err := a.Client(cmd); err == nil {
					wrong = further(cmd.Context(), c, docs, wrong)
				}
			}
			faults = append(faults, err, wrongFile(wrong))
		}
		return errors.Join(faults...)
	})
}

// errNothing tells that the plan is empty.
var errNothing = errors.New("nothing to do")

// part is the file of one namespace, with its plan.
type part struct {
	file v1.File
	plan v1.Plan
	tag  string
	// peers are the processes of other namespaces that this namespace is after and that the files have, too.
	peers []string
}

// run shows the plan of the files and carries it out.
func (a *applyCommand) run(cmd *cobra.Command, _ []string) error {
	c, err := a.Client(cmd)
	if err != nil {
		return err
	}
	return a.carry(cmd, c, a.docs)
}

// carry shows the plan of documents and carries it out.
func (a *applyCommand) carry(cmd *cobra.Command, c *client.Client, docs []processfile.Document) error {
	parts, err := a.plans(cmd, c, docs)
	if err != nil {
		return err
	}
	todo := slices.ContainsFunc(parts, func(p part) bool { return steps(p.plan) > 0 })
	all, refusal := refusals(parts)
	ends := cmd.Name() != "diff" && refusal != nil && (a.DryRun || all)
	calls := a.Yes && !a.DryRun // the server then refuses the call itself, and records it
	if a.Form == term.AsTable || a.DryRun || !todo {
		if err := a.print(cmd.OutOrStdout(), parts, ends); err != nil {
			return err
		}
	}
	for _, p := range parts {
		for i := 0; a.DryRun && i < len(p.plan.Rollouts); i++ { // a rollout that begins says it itself
			operations.SayOrder(cmd, c, &p.plan.Rollouts[i])
		}
	}
	switch {
	case !todo && cmd.Name() == "diff":
		return errNothing
	case ends && !calls:
		return refusal
	case a.DryRun:
		return nil
	case todo:
		if err := a.confirmPlan(cmd, parts); err != nil {
			return err
		}
	}
	var failed error
	for _, p := range parts {
		switch {
		case steps(p.plan) > 0:
			failed = worse(failed, a.apply(cmd, c, p))
		case slices.ContainsFunc(p.plan.Changes, func(c v1.Change) bool { return c.Files }):
			_, err := c.Apply(cmd.Context(), p.file, a.options(p.tag, p.peers)) // no host notices
			failed = worse(failed, remote.ExitOf(err))
		}
	}
	return failed
}

// refusals returns whether the server would refuse all of the plans, and the error with which it would answer.
func refusals(parts []part) (all bool, refusal error) {
	all = true
	for _, p := range parts {
		err := operations.Refused(p.plan.Refused, p.plan.Reason)
		refusal, all = worse(refusal, err), all && (err != nil || steps(p.plan) == 0)
	}
	return all, refusal
}

// worse returns the error of two parts together. A part that has told its failures itself has an exit code without a
// text.
func worse(a, b error) error {
	if a == nil || b == nil {
		return cmp.Or(a, b)
	}
	var texts []error
	for _, err := range []error{a, b} {
		if exit, ok := errors.AsType[*command.ExitError](err); !ok || exit.Err != nil {
			texts = append(texts, err)
		}
	}
	return &command.ExitError{Code: command.Partial, Err: errors.Join(texts...)}
}

// steps counts what a plan changes: operations, and selections that the server keeps.
func steps(p v1.Plan) (n int) {
	for _, c := range p.Changes {
		n += processfile.Steps(&c)
	}
	return n
}

// plans asks the server for the plan of each namespace, and collects the faults that it finds.
func (a *applyCommand) plans(cmd *cobra.Command, c *client.Client, docs []processfile.Document) ([]part, error) {
	var parts []part
	var faults processfile.Faults
	for _, f := range processfile.Files(docs) {
		peers := processfile.Peers(docs, f.Namespace)
		p, tag, err := c.Plan(cmd.Context(), f, a.options(a.tag, peers))
		if found := foundBy(err); len(found) > 0 {
			faults = append(faults, processfile.Place(docs, f.Namespace, found)...)
			continue
		}
		if err != nil {
			return nil, remote.ExitOf(err)
		}
		parts = append(parts, part{f, p, tag, peers})
	}
	if len(faults) > 0 {
		return nil, wrongFile(faults)
	}
	return parts, nil
}

func (a *applyCommand) options(tag string, peers []string) client.ApplyOptions {
	o := client.ApplyOptions{
		NoRestart: a.noRestart, Force: a.force, Prune: a.prune, Tag: tag, Beside: a.copies.Beside, Message: a.message,
		Edit: a.edits,
		At:   a.rollout.At, Peers: peers,
	}
	if a.rollout.Set != nil {
		o.Rollout = a.rollout.Fields()
	}
	switch {
	case a.adopts:
		o.TakeOver, o.PIDs = client.TakeOverOnly, a.pids
	case a.copies.TakeOver:
		o.TakeOver = client.TakeOverCopy
	}
	return o
}

// confirmPlan asks for confirmation.
func (a *applyCommand) confirmPlan(cmd *cobra.Command, parts []part) error {
	if a.Yes {
		return nil
	}
	n := 0
	for _, p := range parts {
		n += steps(p.plan)
	}
	a.ReadStdin = slices.Contains(a.files, "-")
	return a.AskFirst(cmd, "apply "+process.Count(n, "change", "changes"), n)
}

// mostRounds bounds the calls of one apply. The first round stops what is to be removed, and the second removes it.
const mostRounds = 3

// apply carries out the plan of one namespace.
func (a *applyCommand) apply(cmd *cobra.Command, c *client.Client, p part) (failed error) {
	tag := p.tag
	for range mostRounds {
		done, err := operations.Uninterrupted(cmd.Context(), func(ctx context.Context) (v1.Plan, error) {
			return c.Apply(ctx, p.file, a.options(tag, p.peers))
		}, a.Again("rollout list")+" and "+a.Again("task list"))
		switch {
		case err != nil:
			return err
		case len(done.Rollouts) > 0:
			return a.follow(cmd, c, done.Rollouts)
		case done.Operation == nil && (a.Form == term.AsJSON || a.Form == term.AsYAML):
			return term.PrintValue(cmd.OutOrStdout(), a.Form, done)
		case done.Operation == nil:
			term.Say(cmd, "%s: done; no host needed an operation\n", cmd.Name())
			return nil
		}
		err = a.await(cmd, c, done)
		failed = worse(failed, err)
		if exit, ok := errors.AsType[*command.ExitError](err); err != nil && (!ok || exit.Code != command.Partial) ||
			a.NoWait || !slices.ContainsFunc(done.Changes, stopsToRemove) {
			return failed
		}
		if failed != nil && !a.mayRemove(cmd, c, p) {
			return failed
		}
		tag = ""
	}
	return failed
}

// stopsToRemove reports whether a change stops a process that the next round removes.
func stopsToRemove(c v1.Change) bool {
	return c.Action == v1.ActionRemove && c.Op == string(process.Stop)
}

// mayRemove reports whether the next round would only remove processes. After a failure it must not begin anything
// again, so the rest waits for the next apply. Hosts that are away begin nothing.
func (a *applyCommand) mayRemove(cmd *cobra.Command, c *client.Client, p part) bool {
	next, _, err := c.Plan(cmd.Context(), p.file, a.options("", p.peers))
	removes, stopped := err == nil, false
	for i := range next.Changes {
		change := &next.Changes[i]
		away := !slices.ContainsFunc(change.Hosts, func(host string) bool { return !slices.Contains(next.Away, host) })
		switch {
		case processfile.Steps(change) == 0 || away:
		case change.Action == v1.ActionRemove && !stopsToRemove(*change):
			stopped = true
		default:
			removes = false
		}
	}
	if !removes {
		term.Say(cmd, "%s: processes that the file no longer has are stopped, and not removed: apply the file again\n",
			cmd.Name())
	}
	return removes && stopped
}

// follow follows the rollouts of an apply, one after another.
func (a *applyCommand) follow(cmd *cobra.Command, c *client.Client, rollouts []v1.Rollout) (failed error) {
	for _, r := range rollouts {
		err := operations.Attend(cmd, &a.Session, c, r, a.NoWait)
		if failed = worse(failed, err); cmd.Context().Err() != nil {
			break
		}
	}
	return failed
}

// await waits for the operation of an apply, and prints its results.
func (a *applyCommand) await(cmd *cobra.Command, c *client.Client, p v1.Plan) error {
	w := operations.Waiter{Session: &a.Session, Called: cmd.Name()}
	switch {
	case a.NoWait:
		_, err := fmt.Fprintln(cmd.OutOrStdout(), p.Operation.ID)
		return err
	case a.Form != term.AsTable:
		if err := term.PrintValue(cmd.OutOrStdout(), a.Form, p); err != nil {
			return err
		}
		o, err := w.Await(cmd.Context(), cmd, c, *p.Operation)
		if err != nil {
			return w.Detached(cmd, o.ID, err)
		}
		results, err := client.Collect(c.Results(cmd.Context(), o.ID, client.ResultFilter{}))
		if err != nil {
			return remote.ExitOf(err)
		}
		w.Summarise(cmd, o, results)
		return operations.Verdict(results)
	}
	return w.Finish(cmd, c, *p.Operation)
}

// readFiles reads all files, and collects the faults of all. The error is about files that cannot be read.
func readFiles(in io.Reader, names []string) ([]processfile.Document, processfile.Faults, error) {
	all, err := expand(names)
	if err != nil {
		return nil, nil, err
	}
	var sources []processfile.Source
	var unread []error
	for _, name := range all {
		data, err := operations.ReadFile(in, name)
		if err != nil {
			unread = append(unread, err)
			continue
		}
		sources = append(sources, processfile.Source{File: name, Data: data})
	}
	docs, err := processfile.ReadAll(sources...)
	faults, _ := errors.AsType[processfile.Faults](err)
	return docs, faults, errors.Join(unread...)
}

// expand replaces each directory by its files.
func expand(names []string) (all []string, err error) {
	for _, name := range names {
		info, err := os.Stat(name)
		if name == "-" || err != nil || !info.IsDir() {
			all = append(all, name)
			continue
		}
		before := len(all)
		err = filepath.WalkDir(name, func(path string, e fs.DirEntry, err error) error {
			if err == nil && !e.IsDir() && slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(path)) {
				all = append(all, path)
			}
			return err
		})
		if err != nil {
			return nil, term.Usagef("--file: %w", err)
		}
		if len(all) == before {
			return nil, term.Usagef("--file: %s has no .yaml, .yml or .json file", name)
		}
	}
	return all, nil
}

// print prints the plans. ends is whether the command ends with the refusal of them.
func (a *applyCommand) print(w io.Writer, parts []part, ends bool) error {
	t := term.Table{}
	for _, p := range parts {
		if a.Form != term.AsTable {
			if err := term.PrintValue(w, a.Form, p.plan); err != nil {
				return err
			}
			continue
		}
		for _, c := range p.plan.Changes {
			subject := events.Mark(c.Action) + " " + p.plan.Namespace + "/" + c.Process + processfile.Numbers(c.Copies)
			hosts := words.Message(process.Count(len(c.Hosts), "host", "hosts"), a.Lang(w))
			t.Add(subject, hosts, words.Message(what(c), a.Lang(w)))
		}
	}
	if err := t.Write(w); err != nil || a.Form != term.AsTable {
		return err
	}
	for _, p := range parts {
		for _, line := range planLines(&p.plan, ends) {
			if _, err := fmt.Fprintln(w, words.Message(a.AgainQuoted(line), a.Lang(w))); err != nil {
				return err
			}
		}
	}
	return nil
}

// planLines say how the server would carry out a plan. If the command ends with the refusal, they leave it out.
func planLines(p *v1.Plan, ends bool) (lines []string) {
	if len(p.Away) > 0 {
		lines = append(lines, "not connected: "+operations.FirstOf(p.Away, 10))
	}
	if p.Reason != "" && (p.Refused == 0 || !ends) {
		lines = append(lines, p.Reason)
	}
	for i := range p.Rollouts {
		lines = append(lines, operations.PlannedLine(&p.Rollouts[i]))
	}
	return lines
}

// what says what a change does.
func what(c v1.Change) string {
	var fields []string
	for _, f := range c.Fields {
		fields = append(fields, f.Path+" ("+f.Class+")")
	}
	text := strings.Join(fields, ", ")
	if c.Reason != "" && text != "" {
		text += "; "
	}
	return text + c.Reason
}
