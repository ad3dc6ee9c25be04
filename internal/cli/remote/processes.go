package remote

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	v1 "drover/api/v1"
	"drover/client"
	"drover/internal/cli/term"
	"drover/internal/process"
	"drover/internal/spelling"
	"drover/internal/wildcard"
)

// Choice are the flags that choose processes beside their names: those of Hosts, and those about the processes.
type Choice struct {
	Hosts
	client.ProcessChoice
}

// Flags adds the flags with help for --hosts. The session must get its flags after them.
func (s *Choice) Flags(cmd *cobra.Command, session *Session, help string) {
	s.Hosts.Flags(cmd, session, help)
	s.LabelFlag(cmd)
	f := cmd.Flags()
	f.StringVar(&s.Version, "process-version", "", "only running processes of this version, or of a pattern")
	f.StringSliceVar(&s.States, "state", nil, "only processes in these states")
	term.Complete(cmd, "state", process.States()...)
	cmd.PreRunE = term.Chain(cmd.PreRunE, func(*cobra.Command, []string) error {
		var faults []error
		for _, state := range s.States {
			faults = append(faults, term.OneOf("--state", state, process.States()...))
		}
		return errors.Join(faults...)
	})
}

// LabelFlag adds --process-label.
func (s *Choice) LabelFlag(cmd *cobra.Command) {
	cmd.Flags().StringVar(&s.ProcessSelector, "process-label", "",
		"only processes whose own labels match, such as tier=front")
	cmd.PreRunE = term.Chain(cmd.PreRunE, func(cmd *cobra.Command, _ []string) error {
		return CheckSelector(cmd, "process-label", s.ProcessSelector)
	})
}

// QueryFlags adds the flags of a command that only asks: those of Flags, and --failed-of.
func (s *Choice) QueryFlags(cmd *cobra.Command, session *Session, help string) {
	s.Flags(cmd, session, help)
	s.FailedFlag(cmd)
}

// Filter is the choice as a filter of a list. The names of hosts must be resolved.
func (s *Choice) Filter(hosts []string) client.ProcessFilter {
	return client.ProcessFilter{Hosts: hosts, Selector: s.Selector, ProcessChoice: s.ProcessChoice}
}

// Limited keeps the processes of the first hosts, at most --limit, in the order of their areas and ids.
func (s *Choice) Limited(all []v1.Process) []v1.Process {
	if s.Limit == 0 {
		return all
	}
	chosen := map[string]bool{}
	for _, id := range s.firstHosts(all) {
		chosen[id] = true
	}
	return slices.DeleteFunc(all, func(p v1.Process) bool { return !chosen[p.Host.ID] })
}

func (s *Choice) firstHosts(all []v1.Process) []string {
	areas := map[string]int{}
	for _, p := range all {
		areas[p.Host.ID] = p.Host.Cloud
	}
	ids := slices.SortedFunc(maps.Keys(areas), func(a, b string) int {
		return cmp.Or(cmp.Compare(areas[a], areas[b]), process.CompareNatural(a, b))
	})
	return ids[:min(len(ids), s.Limit)]
}

// First rejects names of hosts that do not exist, and replaces --limit by the names of the first hosts that have a
// process of the choice. It is for commands that leave the search to the server.
func (s *Choice) First(ctx context.Context, c *client.Client, namespace, name string) error {
	if err := s.Exist(ctx, c); err != nil || s.Limit == 0 {
		return err
	}
	f := s.Filter(s.Names)
	f.Namespace, f.Name = namespace, name
	found, err := client.Collect(c.Processes(ctx, f))
	if err != nil {
		return ExitOf(err)
	}
	if hosts := s.firstHosts(found); len(hosts) > 0 {
		s.Names, s.Limit = hosts, 0
	}
	return s.ResolveFew(ctx, c)
}

// Any reports whether the flags choose every process.
func (s *Choice) Any() bool { return s.Hosts.Any() && s.Limit == 0 && !s.narrowed() }

// Narrow reports whether flags beside the names of hosts choose processes.
func (s *Choice) Narrow() bool { return s.Selector != "" || s.narrowed() }

// narrowed reports whether a flag about processes chooses some.
func (s *Choice) narrowed() bool { return s.ProcessSelector+s.Version != "" || len(s.States) > 0 }

// Where says in a message what the flags have chosen.
func (s *Choice) Where() string {
	text := s.Hosts.Where()
	if s.ProcessSelector != "" {
		text += " with labels " + s.ProcessSelector
	}
	if s.Version != "" {
		text += " with version " + s.Version
	}
	if len(s.States) > 0 {
		text += " in state " + process.OrList(s.States)
	}
	return text
}

// NoMatch reports that no process matches the flags, or that a host does not exist. args are the names of processes;
// none if the command has none.
func (s *Choice) NoMatch(ctx context.Context, c *client.Client, args []string) error {
	if len(args) > 0 {
		return NoProcess(ctx, c, args, s.Where(), s.Names)
	}
	if err := s.Unmatched(ctx, c); err != nil || !s.narrowed() {
		return err
	}
	return term.NoSuchf("no process matches%s", s.Where())
}

// NoProcess reports that names match nothing on hosts, or that hosts do not exist. It suggests similar names. Of hosts
// that do not exist, it also reports the names that match nothing on any host.
func NoProcess(ctx context.Context, c *client.Client, args []string, where string, hosts []string) error {
	if unmatched := UnmatchedHosts(ctx, c, hosts); unmatched != nil {
		args = slices.DeleteFunc(slices.Clone(args), func(arg string) bool {
			namespace, name, _ := strings.Cut(arg, "/")
			f := client.ProcessFilter{Namespace: namespace, Name: name, Limit: 1}
			found, err := client.Collect(c.Processes(ctx, f))
			return err != nil || len(found) > 0
		})
		if len(args) == 0 {
			return unmatched
		}
		return errors.Join(unmatched, NoProcess(ctx, c, args, "", nil))
	}
	known := sync.OnceValue(func() []string {
		// The list only improves the message: its own error would hide that message.
		all, _ := client.Collect(c.Processes(ctx, client.ProcessFilter{Limit: 2000}))
		return ProcessNames(all, len(all))
	})
	return All(args, func(arg string) error {
		if !wildcard.IsPattern(arg) {
			near := spelling.Nearest(arg, known())
			if len(near) > 0 && !slices.Contains(near, arg) {
				return term.NoSuchf("no process matches %s%s; did you mean %s?", arg, where, process.OrList(near))
			}
		}
		if strings.Contains(arg, ",") {
			return term.NoSuchf("no process matches %s%s; spaces separate several, not commas", arg, where)
		}
		return term.NoSuchf("no process matches %s%s", arg, where)
	})
}

// ProcessNames returns the names of processes, each once, at most most names.
func ProcessNames(processes []v1.Process, most int) []string {
	var all []string
	for _, p := range processes {
		if n := p.Namespace + "/" + p.Name; len(all) < most && !slices.Contains(all, n) {
			all = append(all, n)
		}
	}
	return all
}

// Used is what a running process uses with its whole tree. Before the host has measured the tree, it is what the main
// process uses.
func Used(p *v1.Process) (u v1.Usage) {
	if p.Instance != nil {
		u = v1.Usage{CPU: p.Instance.CPU, Mem: p.Instance.Mem, RSS: p.Instance.RSS}
	}
	if p.Usage != nil {
		rss := u.RSS
		if u = *p.Usage; u.RSS == 0 {
			u.RSS = rss
		}
	}
	return u
}
