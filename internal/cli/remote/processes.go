package remote

import (
	"context"
	"slices"

	"drover/client"
	"drover/internal/cli/term"
	"drover/internal/spelling"
	"drover/internal/wildcard"
)

// NoProcess reports that nothing matches on the named hosts, or that a host does not exist, and suggests similar names.
func NoProcess(ctx context.Context, c *client.Client, arg, where string, hosts []string) error {
	if err := UnmatchedHost(ctx, c, hosts); err != nil {
		return err
	}
	if !wildcard.IsPattern(arg) {
		// The list only improves the message: its own error would hide that message.
		known, _ := client.Collect(c.Processes(ctx, client.ProcessFilter{Limit: 2000}))
		near := spelling.Nearest(arg, ProcessNames(known, len(known)))
		if len(near) > 0 && !slices.Contains(near, arg) {
			return term.NoSuchf("no process matches %s%s; did you mean %s?", arg, where, term.OrList(near))
		}
	}
	return term.NoSuchf("no process matches %s%s", arg, where)
}

// ProcessNames returns the names of processes, each once, at most most names.
func ProcessNames(processes []client.Process, most int) []string {
	var all []string
	for _, p := range processes {
		if n := p.Namespace + "/" + p.Name; len(all) < most && !slices.Contains(all, n) {
			all = append(all, n)
		}
	}
	return all
}
