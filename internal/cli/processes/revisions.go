package processes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"drover/client"
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
		Use:   "revisions NAMESPACE",
		Short: "List who changed the specs of a namespace, when and why",
		Long: `List the revisions of a namespace, newest first. Each change of the spec of a process is a revision:
by 'drover apply' or 'drover edit', by another operation, or by a call of GSE or JOB. + counts the new
processes, ~ the changed ones and - the removed ones. -o wide shows the processes and their fields.

A revision is what the server has accepted. A host that was away does not have it:
'drover diff NAMESPACE --revision N' shows how hosts differ from it.`,
		Example: `  drover revisions shop
  drover get 'shop/*' --revision 15
  drover diff shop --revision 15..16`,
		Args: term.Args,
		RunE: remote.Query(&s, func(ctx context.Context, c *client.Client, args []string) ([]client.Revision, error) {
			rows, err := client.Collect(c.Revisions(ctx, args[0], limit))
			if err == nil && len(rows) == 0 {
				err = unknownNamespace(ctx, c, args[0])
			}
			return rows, err
		}, func(cmd *cobra.Command, args []string, rows []client.Revision) error {
			if len(rows) == 0 {
				term.Say(cmd, "no revisions of namespace %s\n", term.Printable(args[0]))
			}
			return term.PrintList(cmd, s.Output, rows, revisionColumns(), nil)
		}),
		ValidArgsFunction: remote.First(completeNamespaces(&s)),
	}
	cmd.Flags().IntVar(&limit, "limit", 50, "list at most this number of revisions, the latest ones; 0 lists all")
	s.ListFlags(cmd, term.AsTable, term.AsWide, term.AsJSON, term.AsYAML)
	cmd.PreRunE = term.Chain(cmd.PreRunE, func(*cobra.Command, []string) error { return limited(limit) })
	return cmd
}

func revisionColumns() []term.Column[client.Revision] {
	return []term.Column[client.Revision]{
		{Head: "REVISION", Cell: func(r client.Revision) string { return strconv.FormatInt(r.Number, 10) }},
		{Head: "TIME", Cell: func(r client.Revision) string { return term.Stamp(&r.At) }},
		{Head: "BY", Cell: func(r client.Revision) string { return term.Caller(r.App, r.User) }},
		{Head: "THROUGH", Cell: func(r client.Revision) string { return r.Through }},
		{Head: "CHANGES", Cell: revisionCounts},
		{Head: "MESSAGE", Cell: func(r client.Revision) string { return r.Message }},
		{Head: "OPERATION", Wide: true, Cell: func(r client.Revision) string { return r.Operation }},
		{Head: "PROCESSES", Wide: true, Cell: revisedProcesses},
	}
}

// mark returns the sign of an action in a plan.
func mark(action string) string {
	return map[string]string{
		actionCreate: "+", actionChange: "~", actionRemove: "-", actionNone: "=", actionKept: "!",
	}[action]
}

// revisionCounts counts the processes of a revision by what happened to them.
func revisionCounts(r client.Revision) string {
	var parts []string
	for _, action := range []string{actionCreate, actionChange, actionRemove} {
		names := map[string]bool{}
		for _, c := range r.Changes {
			if c.Action == action {
				names[c.Process] = true
			}
		}
		if len(names) > 0 {
			parts = append(parts, mark(action)+strconv.Itoa(len(names)))
		}
	}
	return strings.Join(parts, " ")
}

// revisedProcesses names the processes of a revision and their changed fields.
func revisedProcesses(r client.Revision) string {
	var parts []string
	for _, c := range r.Changes {
		text := mark(c.Action) + " " + c.Process + " on " + process.Count(c.Hosts, "host", "hosts")
		var fields []string
		for _, f := range c.Fields {
			fields = append(fields, f.Path)
		}
		if fields != nil {
			text += ": " + strings.Join(fields, ", ")
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, "; ")
}

// filesAt returns the processes that the arguments name as they are by a revision, as one file for each namespace.
func filesAt(ctx context.Context, c *client.Client, args []string, revision int64) (files []client.File, err error) {
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
func matching(all map[string]client.Spec, patterns []string) map[string]client.Spec {
	found := map[string]client.Spec{}
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
	if slices.ContainsFunc(p.Changes, func(c client.Change) bool { return c.Action != actionNone }) {
		return &command.ExitError{Code: command.NotRunning}
	}
	return nil
}

// changesOf returns the changes of the processes and copies that a pattern selects.
func changesOf(all []client.Change, pattern string) (found []client.Change) {
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
func namespacesOf(processes []client.Process) (all []string) {
	for _, p := range processes {
		if !slices.Contains(all, p.Namespace) {
			all = append(all, p.Namespace)
		}
	}
	return all
}

// runsWith names the revision of a process, and the other one that it runs with.
func runsWith(p client.Process) string {
	switch {
	case p.Revision == 0:
		return ""
	case p.Instance == nil || p.Instance.Revision == 0 || p.Instance.Revision == p.Revision:
		return strconv.FormatInt(p.Revision, 10)
	}
	return fmt.Sprintf("runs with %d, stored is %d", p.Instance.Revision, p.Revision)
}

// NewDrift returns 'drover drift'.
func NewDrift() *cobra.Command {
	var s remote.Session
	var f client.DriftFilter
	var sel remote.Choice
	cmd := &cobra.Command{
		Use:   "drift [NAMESPACE/NAME]",
		Short: "Show how processes differ from their files",
		Long: `Show how processes differ from the file in force: the spec that a host has, and the running process.
The file in force is the selection that the host matches, else the last file on that host. drover asks
the hosts for the command line, the user, the limits and the names of the environment variables of the
process, and whether its executable was replaced on disk.

missed is a host that does not have the spec of the file, or lacks the process. changed is a spec that
an operation, a call of GSE or JOB, or an aborted rollout has changed. person is a process that somebody
has stopped, unwatched or removed. process is a difference of the running process, and config one of a
configuration file.

Each difference has the command that removes it. drover changes nothing by itself, unless the file
says 'drift: mend'.

Exit codes: 0 no difference, 3 differences, 4 no such process or host, 5 not allowed, 6 a host did not
answer, and no difference was found.`,
		Example: `  drover drift
  drover drift shop/web
  drover drift 'shop/*' -l role=web -o json
  drover drift --stored`,
		Args: term.Args,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := sel.Connect(cmd, &s)
			if err != nil {
				return err
			}
			if len(args) > 0 {
				if f.Namespace, f.Name, err = term.SplitID(args[0]); err != nil {
					return suggestNamespace(cmd.Context(), c, args[0], err)
				}
			}
			if err := sel.First(cmd.Context(), c, f.Namespace, f.Name); err != nil {
				return err
			}
			f.Hosts, f.Selector, f.ProcessChoice = sel.Names, sel.Selector, sel.ProcessChoice
			answer, err := c.Drift(cmd.Context(), f)
			if err != nil {
				return remote.ExitOf(err)
			}
			if answer.Processes == 0 && (len(args) > 0 || !sel.Any()) {
				if err := sel.NoMatch(cmd.Context(), c, args); err != nil {
					return err
				}
				return term.NoSuchf("no process matches%s", sel.Where())
			}
			for i := range answer.Items {
				answer.Items[i].Mend = s.AgainIn(answer.Items[i].Mend)
			}
			return showDrift(cmd, &s, answer)
		},
		ValidArgsFunction: remote.First(completeProcesses(&s)),
	}
	cmd.Flags().BoolVar(&f.Stored, "stored", false, "ask no host: compare only what the server has stored")
	sel.QueryFlags(cmd, &s, "only on these hosts")
	sel.LimitFlag(cmd)
	s.Flags(cmd, term.AsTable, term.AsJSON, term.AsYAML)
	return cmd
}

// showDrift prints differences, and fails if there are some.
func showDrift(cmd *cobra.Command, s *remote.Session, answer client.DriftReport) error {
	if s.Form != term.AsTable {
		if err := term.PrintValue(cmd.OutOrStdout(), s.Form, answer); err != nil {
			return err
		}
	} else if len(answer.Items) > 0 {
		if err := term.PrintList(cmd, s.Output, foldDifferences(answer.Items), driftColumns(), nil); err != nil {
			return err
		}
	}
	for _, h := range answer.Unasked {
		term.Say(cmd, "running processes not compared: %s: %s\n", term.Printable(h.Host), term.Printable(h.Error))
	}
	switch {
	case answer.Total == 0 && len(answer.Unasked) > 0:
		return &command.ExitError{Code: command.Unreachable}
	case answer.Total == 0:
		term.Say(cmd, "no differences\n")
		return nil
	case answer.Total > len(answer.Items):
		term.Say(cmd, "%d differences in all: choose a namespace or hosts to see the others\n", answer.Total)
	}
	return &command.ExitError{Code: command.Wrong}
}

// foldDifferences makes one row of the differences that are equal on many hosts: it names the hosts, the command that
// mends all of them, and the time of the last difference.
func foldDifferences(all []client.Difference) []client.Difference {
	const anyHost = "--hosts \x00"
	type key struct{ namespace, name, kind, field, want, have, app, user, through, text, mend string }
	var rows []client.Difference
	var hosts [][]string
	places := map[key]int{}
	for _, d := range all {
		command := strings.ReplaceAll(d.Mend, "--hosts "+term.ShellWord(d.Host), anyHost)
		k := key{
			d.Namespace, d.Name, d.Kind, d.Field, valueText(d.Want), valueText(d.Have), d.App, d.User, d.Through,
			d.Text, command,
		}
		place, met := places[k]
		if !met {
			place = len(rows)
			places[k] = place
			d.Mend = command
			rows, hosts = append(rows, d), append(hosts, nil)
		} else if last := rows[place].At; d.At != nil && (last == nil || d.At.After(*last)) {
			rows[place].At = d.At
		}
		hosts[place] = append(hosts[place], d.Host)
	}
	for i := range rows {
		r, list := &rows[i], strings.Join(hosts[i], ",")
		r.Mend = strings.ReplaceAll(r.Mend, anyHost, "--hosts "+term.ShellWord(list))
		if r.Host = list; len(hosts[i]) > mostHostsInRow {
			r.Host = fmt.Sprintf("%s,… (%d hosts)", strings.Join(hosts[i][:mostHostsInRow], ","), len(hosts[i]))
		}
	}
	return rows
}

// mostHostsInRow is how many hosts a row names.
const mostHostsInRow = 3

func valueText(v any) string {
	if v == nil {
		return ""
	}
	if text, ok := v.(string); ok {
		return term.Printable(text)
	}
	text, _ := json.Marshal(v) // it was JSON
	return term.Printable(string(text))
}

func driftColumns() []term.Column[client.Difference] {
	return []term.Column[client.Difference]{
		{Head: "NAME", Cell: func(d client.Difference) string { return d.Namespace + "/" + d.Name }},
		{Head: "HOST", Cell: func(d client.Difference) string { return d.Host }},
		{Head: "KIND", Cell: func(d client.Difference) string { return d.Kind }},
		{Head: "FIELD", Cell: func(d client.Difference) string { return d.Field }},
		{Head: "FILE", Cell: func(d client.Difference) string { return valueText(d.Want) }},
		{Head: "HOST HAS", Cell: func(d client.Difference) string { return valueText(d.Have) }},
		{Head: "WHY", Cell: whyDiffers},
		{Head: "MEND", Cell: func(d client.Difference) string { return d.Mend }},
	}
}

// whyDiffers says what happened, and in parentheses who did it when.
func whyDiffers(d client.Difference) string {
	var known []string
	if d.App+d.User != "" {
		known = append(known, strings.TrimSpace(d.Through+" by "+term.Caller(d.App, d.User)))
	}
	if d.At != nil {
		known = append(known, term.Stamp(d.At))
	}
	if known == nil {
		return term.Printable(d.Text)
	}
	return term.Printable(d.Text + " (" + strings.Join(known, ", ") + ")")
}
