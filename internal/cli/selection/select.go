// Package selection reads which processes and hosts a command is for, and completes their names.
package selection

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
	"drover/internal/cli/term"
	"drover/internal/command"
	"drover/internal/process"
	"drover/internal/wildcard"
)

// OnlyOne rejects a pattern as the name of one process.
func OnlyOne(args []string) error {
	if len(args) > 0 && term.SplitIDs(args[:1]) == nil && wildcard.IsPattern(args[0]) {
		return term.Usagef("%q is a pattern: expected one process", args[0])
	}
	return nil
}

// ProcessRef is a process on a host, as a target of a command.
type ProcessRef struct{ Namespace, Name, Host string }

// ID returns the process as NAMESPACE/NAME.
func (c ProcessRef) ID() string { return c.Namespace + "/" + c.Name }

// Of returns the process that a copy is one of; for another process it is the process itself.
func (c ProcessRef) Of() ProcessRef {
	c.Name, _ = process.CutCopy(c.Name)
	return c
}

// Selection are the flags that choose processes beside their names.
type Selection struct{ remote.Choice }

// ProcessFlags adds the flags. The session must get its flags after them.
func (s *Selection) ProcessFlags(cmd *cobra.Command, session *remote.Session) {
	s.Choice.Flags(cmd, session, "only on these hosts")
	s.LimitFlag(cmd)
}

// List lists the processes of a filter, with one call for each group of named hosts.
func (s *Selection) List(ctx context.Context, c *client.Client, f client.ProcessFilter) (
	all []v1.Process, err error,
) {
	names := s.Names
	for first := true; first || len(names) > 0; first = false {
		part := names[:min(len(names), remote.MostAsked)]
		names = names[len(part):]
		which := s.Filter(part)
		which.Namespace, which.Name, which.Search = f.Namespace, f.Name, f.Search
		which.Spec, which.Limit = f.Spec, f.Limit
		found, err := client.Collect(c.Processes(ctx, which))
		if err != nil {
			return nil, remote.ExitOf(err)
		}
		all = append(all, found...)
	}
	return all, nil
}

// Matching returns the processes of the hosts that one argument names. The session must have resolved its hosts.
func (s *Selection) Matching(ctx context.Context, c *client.Client, arg string, spec bool) ([]v1.Process, error) {
	namespace, name, err := term.SplitID(arg)
	if err != nil {
		return nil, SuggestNamespace(ctx, c, arg, err)
	}
	return s.List(ctx, c, client.ProcessFilter{Namespace: namespace, Name: name, Spec: spec})
}

// Choose returns the processes that the arguments name and the flags choose, each once, in order. An argument without a
// match is an error, and so is a named host without any of them. The error tells of all. With the error about a host
// come the processes of the others.
func (s *Selection) Choose(ctx context.Context, c *client.Client, args []string, spec bool) ([]v1.Process, error) {
	if err := s.Resolve(ctx, c); err != nil {
		return nil, err
	}
	type key struct{ namespace, name, host string }
	seen := map[key]bool{}
	var all []v1.Process
	var malformed []error
	var missing []string
	for _, arg := range args {
		found, err := s.Matching(ctx, c, arg, spec)
		if _, usage := errors.AsType[*command.UsageError](err); usage {
			malformed = append(malformed, err)
			continue
		}
		if err != nil {
			return nil, err
		}
		if len(found) == 0 && !slices.Contains(missing, arg) {
			missing = append(missing, arg)
		}
		for _, p := range found {
			k := key{p.Namespace, p.Name, p.Host.ID}
			if !seen[k] {
				seen[k] = true
				all = append(all, p)
			}
		}
	}
	if len(missing) > 0 {
		malformed = append(malformed, remote.NoProcess(ctx, c, missing, s.Where(), s.Names))
	}
	if err := errors.Join(malformed...); err != nil {
		return nil, err
	}
	err := s.unused(ctx, c, args, all)
	all = s.Limited(all)
	SortProcesses(all)
	return all, err
}

// unused returns an error about the named hosts that have none of the processes that the arguments name.
func (s *Selection) unused(ctx context.Context, c *client.Client, args []string, all []v1.Process) error {
	if s.Narrow() {
		return nil // the host may have processes that the other flags leave out
	}
	used := map[string]bool{}
	for _, p := range all {
		used[p.Host.ID], used[remote.Address(p.Host)] = true, true
	}
	hosts := slices.DeleteFunc(slices.Clone(s.Names), func(host string) bool {
		return used[host] || wildcard.IsPattern(host)
	})
	if len(hosts) == 0 {
		return nil
	}
	return cmp.Or(remote.UnmatchedHosts(ctx, c, s.Names), remote.All(hosts, func(host string) error {
		return term.NoSuchf("host %s has no process that matches %s", host, strings.Join(args, " "))
	}))
}

// OfResults returns the targets of some results of a task or a rollout, as far as the flags choose them.
func (s *Selection) OfResults(cmd *cobra.Command, c *client.Client, of string, results []v1.Result) (
	targets []ProcessRef, err error,
) {
	ctx := cmd.Context()
	if s.Any() {
		for _, r := range results {
			targets = append(targets, ProcessRef{r.Namespace, r.Name, r.Host})
		}
		return targets, nil
	}
	where := s.Where()
	if err := s.Among(ctx, c, of, results); err != nil {
		return nil, err
	}
	var names []string
	for _, r := range results {
		if id := r.Namespace + "/" + r.Name; !slices.Contains(names, id) {
			names = append(names, id)
		}
	}
	var all []v1.Process
	for _, name := range names {
		found, err := s.Matching(ctx, c, name, false)
		if err != nil {
			return nil, err
		}
		all = append(all, slices.DeleteFunc(found, func(p v1.Process) bool {
			return !slices.ContainsFunc(results, func(r v1.Result) bool {
				return r.Namespace == p.Namespace && r.Name == p.Name && isHost(p.Host, r.Host)
			})
		})...)
	}
	if len(all) == 0 {
		return nil, term.NoSuchf("%s has no such target%s", of, where)
	}
	all = s.Limited(all)
	SortProcesses(all)
	for _, p := range all {
		targets = append(targets, ProcessRef{p.Namespace, p.Name, p.Host.ID})
	}
	return targets, nil
}

// SortProcesses sorts by namespace, name and host.
func SortProcesses(all []v1.Process) {
	slices.SortStableFunc(all, func(a, b v1.Process) int {
		return cmp.Or(
			cmp.Compare(a.Namespace, b.Namespace), process.CompareNatural(a.Name, b.Name),
			cmp.Compare(a.Host.Cloud, b.Host.Cloud), process.CompareNatural(a.Host.ID, b.Host.ID),
		)
	})
}

// SuggestNamespace suggests namespaces for a name without one, and all processes for the name of a namespace. It
// returns refusal unchanged if it finds none.
func SuggestNamespace(ctx context.Context, c *client.Client, arg string, refusal error) error {
	if strings.Contains(arg, "/") || arg == "" {
		return refusal
	}
	found, err := client.Collect(c.Processes(ctx, client.ProcessFilter{Name: arg, Limit: 20}))
	if err == nil && len(found) > 0 {
		return term.Usagef("%q has no namespace; did you mean %s?", arg, process.OrList(remote.ProcessNames(found, 3)))
	}
	found, err = client.Collect(c.Processes(ctx, client.ProcessFilter{Namespace: arg, Limit: 1}))
	if err != nil || len(found) == 0 {
		return refusal
	}
	return term.Usagef("%q is a namespace; did you mean '%s/*'?", arg, arg)
}

// isHost reports whether name is the id or the address of a host.
func isHost(h v1.Host, name string) bool { return h.ID == name || remote.Address(h) == name }

// CompleteProcesses completes NAMESPACE/NAME.
func CompleteProcesses(s *remote.Session) remote.Completer {
	return remote.Completing(s, func(ctx context.Context, c *client.Client, begun string) []string {
		f := client.ProcessFilter{Limit: remote.CompleteMost}
		if namespace, name, err := term.SplitID(begun); err == nil {
			f.Namespace, f.Name = namespace, name+"*"
		} else if namespace, found := cutSlash(begun); found {
			f.Namespace = namespace
		} else {
			f.Namespace = begun + "*"
		}
		found, err := client.Collect(c.Processes(ctx, f))
		if err != nil {
			return nil
		}
		return remote.ProcessNames(found, remote.CompleteMost)
	})
}

// cutSlash returns the namespace of "namespace/", if no name follows yet.
func cutSlash(begun string) (string, bool) {
	if n := len(begun); n > 1 && begun[n-1] == '/' {
		return begun[:n-1], true
	}
	return "", false
}
