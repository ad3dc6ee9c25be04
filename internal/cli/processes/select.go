package processes

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"drover/client"
	"drover/internal/cli/remote"
	"drover/internal/cli/term"
	"drover/internal/process"
	"drover/internal/spelling"
	"drover/internal/wildcard"
)

// processRef is a process on a host, as a target of a command.
type processRef struct{ namespace, name, host string }

func (c processRef) id() string { return c.namespace + "/" + c.name }

// of returns the process that a copy is one of; for another process it is the process itself.
func (c processRef) of() processRef {
	c.name, _ = process.CutCopy(c.name)
	return c
}

// splitID splits NAMESPACE/NAME.
func splitID(arg string) (namespace, name string, err error) {
	namespace, name, found := strings.Cut(arg, "/")
	if !found || namespace == "" || name == "" {
		return "", "", term.Usagef("%q is not a process: expected NAMESPACE/NAME", arg)
	}
	return namespace, name, nil
}

// choose returns the processes that the arguments and hosts name, each once, in order. An argument without a match is
// an error, and so is a host without any of them.
func choose(ctx context.Context, c *client.Client, args, hosts []string, spec bool) ([]client.Process, error) {
	type key struct{ namespace, name, host string }
	seen := map[key]bool{}
	var all []client.Process
	for _, arg := range args {
		namespace, name, err := splitID(arg)
		if err != nil {
			return nil, suggestNamespace(ctx, c, arg, err)
		}
		found, err := client.Collect(c.Processes(ctx, client.ProcessFilter{
			Namespace: namespace, Name: name,
			Hosts: hosts, Spec: spec,
		}))
		if err != nil {
			return nil, remote.ExitOf(err)
		}
		if len(found) == 0 {
			return nil, noneFound(ctx, c, arg, namespace, name, hosts)
		}
		for _, p := range found {
			k := key{p.Namespace, p.Name, p.Host.ID}
			if !seen[k] {
				seen[k] = true
				all = append(all, p)
			}
		}
	}
	for _, host := range hosts {
		if !wildcard.IsPattern(host) &&
			!slices.ContainsFunc(all, func(p client.Process) bool { return isHost(p.Host, host) }) {
			return nil, term.NoSuchf("host %s has no process that matches %s", host, strings.Join(args, " "))
		}
	}
	sortProcesses(all)
	return all, nil
}

// sortProcesses sorts by namespace, name and host.
func sortProcesses(all []client.Process) {
	slices.SortStableFunc(all, func(a, b client.Process) int {
		return cmp.Or(
			cmp.Compare(a.Namespace, b.Namespace), compareNames(a.Name, b.Name),
			cmp.Compare(a.Host.Cloud, b.Host.Cloud), cmp.Compare(a.Host.ID, b.Host.ID),
		)
	})
}

// compareNames orders names, and copies by their numbers.
func compareNames(a, b string) int {
	base, n := process.CutCopy(a)
	other, m := process.CutCopy(b)
	return cmp.Or(cmp.Compare(base, other), cmp.Compare(n, m))
}

// suggestNamespace suggests namespaces for a name without one. It returns refusal unchanged if it finds none.
func suggestNamespace(ctx context.Context, c *client.Client, arg string, refusal error) error {
	found, err := client.Collect(c.Processes(ctx, client.ProcessFilter{Name: arg, Limit: 20}))
	if err != nil || len(found) == 0 || strings.Contains(arg, "/") {
		return refusal
	}
	return term.Usagef("%q has no namespace; did you mean %s?", arg, term.OrList(names(found, 3)))
}

// noneFound reports that nothing matches, and suggests similar names.
func noneFound(ctx context.Context, c *client.Client, arg, namespace, name string, hosts []string) error {
	where := ""
	if len(hosts) > 0 {
		where = " on " + strings.Join(hosts, ", ")
	}
	if !wildcard.IsPattern(arg) {
		// The list only improves the message: its own error would hide that message.
		known, _ := client.Collect(c.Processes(ctx, client.ProcessFilter{Limit: 2000}))
		if near := spelling.Nearest(arg, names(known, len(known))); len(near) > 0 && !slices.Contains(near, arg) {
			return term.NoSuchf("no process matches %s%s; did you mean %s?", arg, where, term.OrList(near))
		}
	}
	return term.NoSuchf("no process matches %s/%s%s", namespace, name, where)
}

// names returns the names of processes, each once, at most most names.
func names(processes []client.Process, most int) []string {
	var all []string
	for _, p := range processes {
		if n := p.Namespace + "/" + p.Name; len(all) < most && !slices.Contains(all, n) {
			all = append(all, n)
		}
	}
	return all
}

// isHost reports whether name is the id or the address of a host.
func isHost(h client.Host, name string) bool { return h.ID == name || remote.Address(h) == name }

// completeProcesses completes NAMESPACE/NAME.
func completeProcesses(s *remote.Session) remote.Completer {
	return remote.Completing(s, func(ctx context.Context, c *client.Client, begun string) []string {
		f := client.ProcessFilter{Limit: remote.CompleteMost}
		if namespace, name, err := splitID(begun); err == nil {
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
		return names(found, remote.CompleteMost)
	})
}

// cutSlash returns the namespace of "namespace/", if no name follows yet.
func cutSlash(begun string) (string, bool) {
	if n := len(begun); n > 1 && begun[n-1] == '/' {
		return begun[:n-1], true
	}
	return "", false
}
