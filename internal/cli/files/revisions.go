package files

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	v1 "drover/api/v1"
	"drover/client"
	"drover/internal/cli/events"
	"drover/internal/cli/remote"
	"drover/internal/cli/term"
	"drover/internal/command"
	"drover/internal/process"
	"drover/internal/processfile"
	"drover/internal/spelling"
	"drover/internal/wildcard"
)

// NewRevisions returns 'drover revisions'.
func NewRevisions() *cobra.Command {
	var s remote.Session
	var limit int
	cmd := &cobra.Command{
		Use:  "revisions NAMESPACE",
		Args: term.Args,
		RunE: remote.Query(&s, func(ctx context.Context, c *client.Client, args []string) ([]v1.Revision, error) {
			rows, err := client.Collect(c.Revisions(ctx, args[0], limit))
			if err == nil && len(rows) == 0 {
				err = unknownNamespace(ctx, c, args[0])
			}
			return rows, err
		}, func(cmd *cobra.Command, args []string, rows []v1.Revision) error {
			if len(rows) == 0 {
				term.Say(cmd, "no revisions of namespace %s\n", term.Printable(args[0]))
			}
			return term.PrintList(cmd, s.Output, rows, revisionColumns(), nil)
		}),
		ValidArgsFunction: remote.First(completeNamespaces(&s)),
	}
	cmd.Flags().IntVar(&limit, "limit", 50, "list at most this number of revisions, the latest ones; 0 lists all")
	s.ListFlags(cmd, term.AsTable, term.AsWide, term.AsJSON, term.AsYAML)
	cmd.PreRunE = term.Chain(cmd.PreRunE, func(*cobra.Command, []string) error { return events.Limited(limit) })
	return cmd
}

func revisionColumns() []term.Column[v1.Revision] {
	return []term.Column[v1.Revision]{
		{Head: "REVISION", Cell: func(r v1.Revision) string { return strconv.FormatInt(r.Number, 10) }},
		{Head: "TIME", Cell: func(r v1.Revision) string { return term.Stamp(&r.At) }},
		{Head: "BY", Cell: func(r v1.Revision) string { return term.Caller(r.App, r.User) }},
		{Head: "THROUGH", Cell: func(r v1.Revision) string { return r.Through }},
		{Head: "CHANGES", Cell: revisionCounts},
		{Head: "MESSAGE", Cell: func(r v1.Revision) string { return r.Message }},
		{Head: "OPERATION", Wide: true, Cell: func(r v1.Revision) string { return r.Operation }},
		{Head: "PROCESSES", Wide: true, Cell: events.RevisedProcesses},
	}
}

// revisionCounts counts the processes of a revision by what happened to them.
func revisionCounts(r v1.Revision) string {
	var parts []string
	for _, action := range []string{v1.ActionCreate, v1.ActionChange, v1.ActionRemove} {
		names := map[string]bool{}
		for _, c := range r.Changes {
			if c.Action == action {
				names[c.Process] = true
			}
		}
		if len(names) > 0 {
			parts = append(parts, events.Mark(action)+strconv.Itoa(len(names)))
		}
	}
	return strings.Join(parts, " ")
}

// filesAt returns the processes that the arguments name as they are by a revision, as one file for each namespace.
func filesAt(ctx context.Context, c *client.Client, args []string, revision int64) (files []v1.File, err error) {
	wanted := map[string][]string{}
	for _, arg := range args {
		namespace, name, err := term.SplitID(arg)
		if err != nil {
			return nil, err
		}
		if wildcard.IsPattern(namespace) {
			return nil, term.Usagef("--revision: %q has a pattern in the namespace: expected one namespace", arg)
		}
		wanted[namespace] = append(wanted[namespace], name)
	}
	for _, namespace := range slices.Sorted(maps.Keys(wanted)) {
		f, err := c.FileAt(ctx, namespace, revision)
		if err != nil {
			return nil, remote.ExitOf(err)
		}
		f.Processes = matching(f.Processes, wanted[namespace])
		for i := range f.More {
			f.More[i] = matching(f.More[i], wanted[namespace])
		}
		if len(f.Processes) == 0 {
			return nil, term.NoSuchf("revision %d of namespace %s has no process that matches %s", revision, namespace,
				strings.Join(wanted[namespace], " "))
		}
		files = append(files, f)
	}
	return files, nil
}

// matching returns the entries that patterns select: all copies of a process, or some of them.
func matching(all map[string]v1.Spec, patterns []string) map[string]v1.Spec {
	found := map[string]v1.Spec{}
	for name, spec := range all {
		base, _ := process.CutCopy(name)
		if matchesAny(patterns, name) || matchesAny(patterns, base) {
			found[name] = spec
			continue
		}
		for _, one := range processfile.Expand(processfile.Named{Name: name, Spec: spec}) {
			if matchesAny(patterns, one.Name) {
				found[one.Name] = one.Spec
			}
		}
	}
	return found
}

func matchesAny(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return wildcard.Match(p, name) })
}

// parseRevisions reads A or A..B. to is 0 without B.
func parseRevisions(text string) (from, to int64, err error) {
	first, second, both := strings.Cut(text, "..")
	from, err = strconv.ParseInt(first, 10, 64)
	if both && err == nil {
		to, err = strconv.ParseInt(second, 10, 64)
	}
	if err != nil || from < 1 || both && to < 1 {
		return 0, 0, term.Usagef("--revision %q: expected the number of a revision, or two such as 15..16", text)
	}
	return from, to, nil
}

// compare shows how two revisions differ, or a revision and what hosts have. The argument is NAMESPACE or
// NAMESPACE/NAME.
func (a *applyCommand) compare(cmd *cobra.Command, args []string) error {
	from, to, err := parseRevisions(a.revision)
	if len(args) != 1 || len(a.files) > 0 {
		return errors.Join(err,
			term.Usagef("%s: --revision needs one NAMESPACE or NAMESPACE/NAME, and no file", cmd.CommandPath()))
	}
	namespace, name, named := strings.Cut(args[0], "/")
	if namespace == "" || named && name == "" || wildcard.IsPattern(namespace) {
		err = errors.Join(err,
			term.Usagef("%q: expected NAMESPACE or NAMESPACE/NAME, without a pattern in the namespace", args[0]))
	}
	if err != nil {
		return err
	}
	c, err := a.Client(cmd)
	if err != nil {
		return err
	}
	p, err := c.Compare(cmd.Context(), namespace, from, to)
	if err != nil {
		return remote.ExitOf(err)
	}
	if named {
		if p.Changes = changesOf(p.Changes, name); len(p.Changes) == 0 {
			return term.NoSuchf("no process matches %s", args[0])
		}
	}
	if err := a.print(cmd.OutOrStdout(), []part{{plan: p}}, false); err != nil {
		return err
	}
	if slices.ContainsFunc(p.Changes, func(c v1.Change) bool { return c.Action != v1.ActionNone }) {
		return &command.ExitError{Code: command.NotRunning}
	}
	return nil
}

// changesOf returns the changes of the processes and copies that a pattern selects.
func changesOf(all []v1.Change, pattern string) (found []v1.Change) {
	for _, c := range all {
		if !wildcard.Match(pattern, c.Process) {
			c.Copies = slices.DeleteFunc(slices.Clone(c.Copies), func(number int) bool {
				return !wildcard.Match(pattern, process.CopyName(c.Process, number))
			})
			if len(c.Copies) == 0 {
				continue
			}
		}
		found = append(found, c)
	}
	return found
}

// unknownNamespace returns an error about a namespace without processes, with the names that it may mean. It returns
// nil if the namespace has processes, or if the server does not say.
func unknownNamespace(ctx context.Context, c *client.Client, name string) error {
	own, err := client.Collect(c.Processes(ctx, client.ProcessFilter{Namespace: name, Limit: 1}))
	switch {
	case !wildcard.IsPattern(name):
	case err == nil && len(own) > 0:
		return term.Usagef("%s is a pattern: expected one namespace, such as %s", name, own[0].Namespace)
	default:
		return term.Usagef("%s is a pattern: expected one namespace", name)
	}
	if err != nil || len(own) > 0 {
		return nil //nolint:nilerr // the answer only improves a message
	}
	known, _ := client.Collect(c.Processes(ctx, client.ProcessFilter{Limit: 2000})) // likewise
	if near := spelling.Nearest(name, namespacesOf(known)); len(near) > 0 {
		return term.NoSuchf("no process is in namespace %s; did you mean %s?", name, process.OrList(near))
	}
	return term.NoSuchf("no process is in namespace %s", name)
}

// completeNamespaces completes the name of a namespace.
func completeNamespaces(s *remote.Session) remote.Completer {
	return remote.Completing(s, func(ctx context.Context, c *client.Client, begun string) []string {
		found, err := client.Collect(c.Processes(ctx, client.ProcessFilter{
			Namespace: begun + "*", Limit: remote.CompleteMost,
		}))
		if err != nil {
			return nil
		}
		return namespacesOf(found)
	})
}

// namespacesOf returns the namespaces of processes, each once.
func namespacesOf(processes []v1.Process) (all []string) {
	for _, p := range processes {
		if !slices.Contains(all, p.Namespace) {
			all = append(all, p.Namespace)
		}
	}
	return all
}
