package remote

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	v1 "drover/api/v1"
	"drover/client"
	"drover/internal/cli/term"
	"drover/internal/process"
	"drover/internal/selector"
	"drover/internal/spelling"
	"drover/internal/wildcard"
)

// Hosts are the flags that choose hosts.
type Hosts struct {
	// Names are ids, CLOUD:IP or patterns. Selector is an expression about labels and facts; empty if there is none.
	// With both, a host must match both.
	Names    []string
	Selector string
	// failedOf is a task or a rollout: only the hosts on which it has failed. cmd is the command that has the flag.
	failedOf string
	cmd      *cobra.Command
	// Limit is the largest number of hosts; 0 is no limit.
	Limit int
}

// Bounds of --hosts.
const (
	maxHostFile = 4 << 20 // bytes of an @FILE
	mostNames   = 20_000
	// MostAsked is the largest number of names in one call: a header has at most 64 KiB.
	MostAsked = 500
)

// Flags adds --hosts and --selector with help for the first.
func (h *Hosts) Flags(cmd *cobra.Command, s *Session, help string) {
	f := cmd.Flags()
	f.StringSliceVar(&h.Names, "hosts", nil, help+": ids, CLOUD:IP, patterns or @FILE")
	f.StringVarP(&h.Selector, "selector", "l", "",
		"only hosts whose labels and facts match, such as role=web,zone!=b")
	CompleteFlag(cmd, "hosts", Completing(s, HostIDs))
	cmd.PreRunE = term.Chain(cmd.PreRunE, func(cmd *cobra.Command, _ []string) (err error) {
		h.Names, err = expanded(h.Names, cmd.InOrStdin())
		return errors.Join(CheckSelector(cmd, "selector", h.Selector), err)
	})
}

// QueryFlags adds the flags of a command that only asks: those of Flags, and --failed-of.
func (h *Hosts) QueryFlags(cmd *cobra.Command, s *Session, help string) {
	h.Flags(cmd, s, help)
	h.FailedFlag(cmd)
}

// ChangeFlags adds the flags of QueryFlags, and --limit. A command about hosts calls Only.
func (h *Hosts) ChangeFlags(cmd *cobra.Command, s *Session, help string) {
	h.QueryFlags(cmd, s, help)
	h.LimitFlag(cmd)
}

// LimitFlag adds --limit.
func (h *Hosts) LimitFlag(cmd *cobra.Command) {
	cmd.Flags().IntVar(&h.Limit, "limit", 0, "only on the first hosts, at most this number")
	cmd.PreRunE = term.Chain(cmd.PreRunE, func(cmd *cobra.Command, _ []string) error {
		if h.Limit < 1 && term.Given(cmd, "limit") { // a script that counts no host must not get all
			return term.Usagef("--limit %d: expected 1 or more", h.Limit)
		}
		return nil
	})
}

// FailedFlag adds --failed-of.
func (h *Hosts) FailedFlag(cmd *cobra.Command) {
	h.cmd = cmd
	cmd.Flags().StringVar(&h.failedOf, "failed-of", "",
		"only the hosts on which the task or rollout with this id failed")
}

// Also adds names that are arguments.
func (h *Hosts) Also(names []string) { h.Names = append(h.Names, names...) }

// Resolve replaces --failed-of by names of hosts. Call it before the names are used.
func (h *Hosts) Resolve(ctx context.Context, c *client.Client) error {
	if h.failedOf == "" {
		return nil
	}
	results, err := FailedOf(ctx, h.cmd, c, h.failedOf)
	if err != nil {
		return err
	}
	return h.Among(ctx, c, h.failedOf, results)
}

// Among chooses the hosts of results, in the place of --failed-of. If hosts are named beside it, only these remain.
func (h *Hosts) Among(ctx context.Context, c *client.Client, of string, results []v1.Result) error {
	var failed []string
	for _, r := range results {
		if !slices.Contains(failed, r.Host) {
			failed = append(failed, r.Host)
		}
	}
	h.failedOf = ""
	if len(h.Names) == 0 {
		h.Names = failed
		return nil
	}
	named := Hosts{Names: h.Names}
	chosen, err := named.agents(ctx, c)
	if err != nil {
		return err
	}
	h.Names = slices.DeleteFunc(failed, func(host string) bool {
		return !slices.ContainsFunc(chosen, func(a v1.JoinedHost) bool {
			return a.ID == host || Address(a.Host) == host
		})
	})
	if len(h.Names) == 0 {
		return term.NoSuchf("%s has no such target%s", of, named.Where())
	}
	return nil
}

// FailedOf returns the results that failed in a task. Of a rollout it returns those of the hosts that failed. If a host
// failed after its operations succeeded, these are all of its results. It leaves out removed hosts, and says so.
func FailedOf(ctx context.Context, cmd *cobra.Command, c *client.Client, id string) ([]v1.Result, error) {
	failed, err := resultsOf(ctx, c, id, client.ResultFilter{Outcome: "failed"}, failedIn)
	if err != nil {
		return nil, err
	}
	if len(failed) == 0 {
		return nil, term.NoSuchf("no target failed in %s", id)
	}
	if failed = onPresentHosts(ctx, cmd, c, failed); len(failed) == 0 {
		return nil, term.NoSuchf("%s failed only on hosts that were removed, or that you may not see", id)
	}
	return failed, nil
}

// StoppedBy returns the results of a task, or of a rollout, that has ended processes which ran. It leaves out removed
// hosts, and says so.
func StoppedBy(ctx context.Context, cmd *cobra.Command, c *client.Client, id string) ([]v1.Result, error) {
	results, err := resultsOf(ctx, c, id, client.ResultFilter{Outcome: v1.OutcomeOK}, succeededIn)
	if err != nil {
		return nil, err
	}
	stopped := slices.DeleteFunc(results, func(r v1.Result) bool {
		return r.Already || r.Op != string(process.Stop) && r.Op != string(process.Kill)
	})
	if len(stopped) == 0 {
		return nil, term.NoSuchf("%s has stopped no process that ran", id)
	}
	if stopped = onPresentHosts(ctx, cmd, c, stopped); len(stopped) == 0 {
		return nil, term.NoSuchf("%s has stopped processes only on hosts that were removed, or that you may not see", id)
	}
	return stopped, nil
}

// resultsOf returns results of a task, or those that a function finds in the rollout with the id.
func resultsOf(ctx context.Context, c *client.Client, id string, f client.ResultFilter,
	in func(context.Context, *client.Client, *v1.Rollout) ([]v1.Result, error),
) ([]v1.Result, error) {
	found, err := client.Collect(c.Results(ctx, id, f))
	if NotFound(err) {
		if r, other := c.Rollout(ctx, id); other == nil {
			found, err = in(ctx, c, &r)
		} else if !NotFound(other) {
			err = other
		}
	}
	if NotFound(err) {
		return nil, term.NoSuchf("there is no task or rollout %q", id)
	}
	return found, ExitOf(err)
}

// onPresentHosts leaves out the results of removed hosts, and says so.
func onPresentHosts(ctx context.Context, cmd *cobra.Command, c *client.Client, all []v1.Result) []v1.Result {
	hosts := make([]string, len(all))
	for i, r := range all {
		hosts[i] = r.Host
	}
	_, gone, err := lookup(ctx, c, slices.Compact(slices.Sorted(slices.Values(hosts))), client.HostFilter{})
	if err != nil {
		return all // the caller may not see hosts
	}
	present := slices.DeleteFunc(slices.Clone(all), func(r v1.Result) bool { return slices.Contains(gone, r.Host) })
	if left := len(all) - len(present); left > 0 && len(present) > 0 {
		term.Say(cmd, "left out: %s on hosts that were removed, or that you may not see\n",
			process.Count(left, "target", "targets"))
	}
	return present
}

// succeededIn returns the results without a failure of all batches of a rollout. A host that was retried has results in
// several batches.
func succeededIn(ctx context.Context, c *client.Client, r *v1.Rollout) (ok []v1.Result, err error) {
	for batch := range r.Batch + 1 {
		task := r.ID + "-" + strconv.Itoa(batch)
		results, err := client.Collect(c.Results(ctx, task, client.ResultFilter{Outcome: v1.OutcomeOK}))
		if err != nil && !NotFound(err) { // a batch may have had no host left
			return nil, err
		}
		ok = append(ok, results...)
	}
	return ok, nil
}

func failedIn(ctx context.Context, c *client.Client, r *v1.Rollout) (failed []v1.Result, err error) {
	hosts := map[string][]string{} // of each task
	for i := range r.Hosts {
		if h := &r.Hosts[i]; h.State == v1.RolloutHostFailed {
			hosts[h.Operation] = append(hosts[h.Operation], h.Host)
		}
	}
	for _, task := range slices.Sorted(maps.Keys(hosts)) {
		results, err := client.Collect(c.Results(ctx, task, client.ResultFilter{}))
		if err != nil {
			return nil, err
		}
		byHost := map[string][]v1.Result{}
		for _, x := range results {
			byHost[x.Host] = append(byHost[x.Host], x)
		}
		for _, host := range hosts[task] {
			all := byHost[host]
			bad := slices.DeleteFunc(slices.Clone(all), func(x v1.Result) bool { return !x.Failed() })
			if len(bad) == 0 {
				bad = all
			}
			failed = append(failed, bad...)
		}
	}
	return failed, nil
}

// Only is Resolve, and replaces --limit by the names of the first hosts, in the order of their areas and addresses.
func (h *Hosts) Only(ctx context.Context, c *client.Client) error {
	if err := h.Resolve(ctx, c); err != nil || h.Limit == 0 {
		return err
	}
	ids, err := h.IDs(ctx, c)
	if err == nil {
		h.Names, h.Selector = ids, ""
	}
	return err
}

// IDs is Resolve, and returns the ids of the chosen hosts, at most --limit, in the order of their areas and addresses.
// A name or pattern without a match is an error.
func (h *Hosts) IDs(ctx context.Context, c *client.Client) ([]string, error) {
	all, err := h.agents(ctx, c)
	ids := make([]string, len(all))
	for i, a := range all {
		ids[i] = a.ID
	}
	return ids, err
}

// agents is IDs for whole hosts.
func (h *Hosts) agents(ctx context.Context, c *client.Client) (all []v1.JoinedHost, err error) {
	if err := h.Resolve(ctx, c); err != nil {
		return nil, err
	}
	if len(h.Names) == 0 {
		all, err = client.Collect(c.Hosts(ctx, client.HostFilter{Selector: h.Selector}))
		if err == nil && len(all) == 0 {
			err = term.NoSuchf("no host matches %s", h.Selector)
		}
	} else {
		all, err = h.named(ctx, c)
	}
	if err != nil {
		return nil, ExitOf(err)
	}
	slices.SortStableFunc(all, func(a, b v1.JoinedHost) int {
		return cmp.Or(cmp.Compare(a.Cloud, b.Cloud), process.CompareNatural(a.ID, b.ID))
	})
	all = slices.CompactFunc(all, func(a, b v1.JoinedHost) bool { return a.ID == b.ID })
	if h.Limit > 0 {
		all = all[:min(len(all), h.Limit)]
	}
	return all, nil
}

// named returns the hosts of the names that the expression matches. The error names all names without one.
func (h *Hosts) named(ctx context.Context, c *client.Client) ([]v1.JoinedHost, error) {
	all, missing, err := lookup(ctx, c, h.Names, client.HostFilter{Selector: h.Selector})
	if err != nil || len(missing) == 0 {
		return all, err
	}
	unknown := missing
	if h.Selector != "" {
		// The list only improves the message.
		_, unknown, _ = lookup(ctx, c, missing, client.HostFilter{Limit: 1})
	}
	near := nearHosts(ctx, c)
	return nil, All(missing, func(name string) error {
		if !slices.Contains(unknown, name) {
			return term.NoSuchf("no host matches %s %s", name, h.Selector)
		}
		return noHost(name, near)
	})
}

// lookup returns the hosts of a filter that names choose, and the names without one. The limit of the filter is for
// each pattern; a name that is no pattern has one host at most.
func lookup(ctx context.Context, c *client.Client, names []string, f client.HostFilter) (
	all []v1.JoinedHost, missing []string, err error,
) {
	whole := slices.DeleteFunc(slices.Clone(names), wildcard.IsPattern)
	with := map[string]bool{}
	for part := range slices.Chunk(whole, MostAsked) {
		found, err := client.Collect(c.Hosts(ctx, client.HostFilter{Hosts: part, Selector: f.Selector}))
		if err != nil {
			return nil, nil, err
		}
		for _, a := range found {
			with[a.ID], with[Address(a.Host)] = true, true
		}
		all = append(all, found...)
	}
	for _, name := range names {
		if wildcard.IsPattern(name) && !with[name] {
			f.Hosts = []string{name}
			found, err := client.Collect(c.Hosts(ctx, f))
			if err != nil {
				return nil, nil, err
			}
			with[name], all = len(found) > 0, append(all, found...)
		}
		if !with[name] && !slices.Contains(missing, name) {
			missing = append(missing, name)
		}
	}
	return all, missing, nil
}

// All returns one error with the faults of all names. It tells the first ones, and counts the others.
func All(names []string, fault func(name string) error) error {
	const told = 10
	var faults []error
	for _, name := range names[:min(len(names), told)] {
		faults = append(faults, fault(name))
	}
	if more := len(names) - told; more > 0 {
		faults = append(faults, term.NoSuchf("and %d more", more))
	}
	return errors.Join(faults...)
}

// ResolveFew is Resolve for a command that asks once for all hosts.
func (h *Hosts) ResolveFew(ctx context.Context, c *client.Client) error {
	if err := h.Resolve(ctx, c); err != nil {
		return err
	}
	if len(h.Names) > MostAsked {
		return term.Usagef("--hosts names %d hosts: expected at most %d in this command", len(h.Names), MostAsked)
	}
	return nil
}

// Connect returns a client of the session after ResolveFew.
func (h *Hosts) Connect(cmd *cobra.Command, s *Session) (*client.Client, error) {
	c, err := s.Client(cmd)
	if err != nil {
		return nil, err
	}
	return c, h.ResolveFew(cmd.Context(), c)
}

// ConnectPast is Connect for a command about the past, and checks the names with Ever.
func (h *Hosts) ConnectPast(cmd *cobra.Command, s *Session) (*client.Client, error) {
	c, err := h.Connect(cmd, s)
	if err != nil {
		return nil, err
	}
	return c, h.Ever(cmd.Context(), c)
}

// Unmatched returns an error about the names that are of no host, or about an expression that no host matches, and nil
// if there is neither. Commands call it when they have found nothing.
func (h *Hosts) Unmatched(ctx context.Context, c *client.Client) error {
	if err := UnmatchedHosts(ctx, c, h.Names); err != nil || h.Selector == "" {
		return err
	}
	f := client.HostFilter{Hosts: h.Names[:min(len(h.Names), MostAsked)], Selector: h.Selector, Limit: 1}
	if found, err := client.Collect(c.Hosts(ctx, f)); err != nil || len(found) > 0 || len(h.Names) > MostAsked {
		return nil //nolint:nilerr // the answer only improves a message
	}
	if len(h.Names) == 0 {
		return term.NoSuchf("no host matches %s", h.Selector)
	}
	return All(h.Names, func(name string) error { return term.NoSuchf("no host matches %s %s", name, h.Selector) })
}

// Exist returns an error about the names without a host. Patterns alone are no error. It returns nil if the server does
// not say.
func (h *Hosts) Exist(ctx context.Context, c *client.Client) error { return h.exist(ctx, c, false) }

// Ever is Exist for a command about the past: a removed host counts as long as an event of it is kept.
func (h *Hosts) Ever(ctx context.Context, c *client.Client) error { return h.exist(ctx, c, true) }

func hasEvents(ctx context.Context, c *client.Client, host string) bool {
	found, err := client.Collect(c.Events(ctx, client.EventFilter{Hosts: []string{host}, Limit: 1}))
	return err == nil && len(found) > 0
}

func (h *Hosts) exist(ctx context.Context, c *client.Client, past bool) error {
	names := slices.DeleteFunc(slices.Clone(h.Names), wildcard.IsPattern)
	_, missing, err := lookup(ctx, c, names, client.HostFilter{})
	if err != nil {
		return nil //nolint:nilerr // the answer only improves a message
	}
	missing = slices.DeleteFunc(missing, func(name string) bool { return past && hasEvents(ctx, c, name) })
	if len(missing) == 0 {
		return nil
	}
	// The patterns without a host only complete the message.
	_, patterns, _ := lookup(ctx, c, slices.DeleteFunc(slices.Clone(h.Names), func(name string) bool {
		return !wildcard.IsPattern(name)
	}), client.HostFilter{Limit: 1})
	missing = append(missing, patterns...)
	near := nearHosts(ctx, c)
	return All(missing, func(name string) error { return noHost(name, near) })
}

// UnmatchedAfter is Unmatched if a server has found fault with a request. The server has no status of its own for a
// host that does not exist.
func (h *Hosts) UnmatchedAfter(ctx context.Context, c *client.Client, err error) error {
	refusal, ok := errors.AsType[*v1.Problem](err)
	if !ok || refusal.Status != http.StatusUnprocessableEntity {
		return nil
	}
	if err := h.Unmatched(ctx, c); err != nil {
		return err
	}
	for _, f := range refusal.Fields { // the caller may read more hosts than it may change
		if strings.HasPrefix(f.Detail, "no host matches ") {
			return term.NoSuchf("%s", f.Detail)
		}
	}
	return nil
}

// UnmatchedHosts returns an error about the names and patterns that match no host, with the names that they may mean.
// It returns nil if each matches, or if the server does not say.
func UnmatchedHosts(ctx context.Context, c *client.Client, names []string) error {
	_, missing, err := lookup(ctx, c, names, client.HostFilter{Limit: 1})
	if err != nil {
		return nil //nolint:nilerr // the answer only improves a message
	}
	near := nearHosts(ctx, c)
	return All(missing, func(name string) error { return noHost(name, near) })
}

func noHost(name string, near func(name string) []string) error {
	if meant := near(name); len(meant) > 0 {
		return term.NoSuchf("no host matches %s; did you mean %s?", name, process.OrList(meant))
	}
	return term.NoSuchf("no host matches %s", name)
}

// nearHosts returns a search for the names of the hosts with an address in any area, otherwise names that are
// spelt alike.
func nearHosts(ctx context.Context, c *client.Client) func(name string) []string {
	known := sync.OnceValue(func() []string { return Words(c.Hosts(ctx, client.HostFilter{Limit: 2000}), agentID) })
	return func(name string) []string {
		if wildcard.IsPattern(name) {
			return nil
		}
		anyArea := client.HostFilter{Hosts: []string{"*:" + name}, Limit: 3}
		if near := Words(c.Hosts(ctx, anyArea), agentID); len(near) > 0 {
			return near
		}
		return spelling.Nearest(name, known())
	}
}

// Any reports whether the flags choose every host.
func (h *Hosts) Any() bool { return len(h.Names) == 0 && h.Selector == "" && h.failedOf == "" }

// Where is " on …" for messages; empty if the flags choose every host.
func (h *Hosts) Where() string {
	const shown = 3
	names := strings.Join(h.Names[:min(len(h.Names), shown)], ", ")
	if more := len(h.Names) - shown; more > 0 {
		names += fmt.Sprintf(" and %d more", more)
	}
	switch {
	case names != "" && h.Selector != "":
		return " on hosts of " + names + " that match " + h.Selector
	case names != "":
		return " on " + names
	case h.Selector != "":
		return " on hosts that match " + h.Selector
	}
	return ""
}

// CheckSelector returns an error for an expression that is wrong, or empty though its flag is given.
func CheckSelector(cmd *cobra.Command, flag, text string) error {
	if !cmd.Flags().Changed(flag) {
		return nil
	}
	_, err := selector.Parse(text)
	if fault, ok := errors.AsType[*selector.Error](err); ok {
		mark := strings.Repeat(" ", min(fault.At, len(text)+1)-1) + "^"
		if len(text) > 200 || strings.ContainsFunc(text, func(c rune) bool { return c < ' ' || c > '~' }) {
			return term.Usagef("--%s %w", flag, err)
		}
		return term.Usagef("--%s %w\n  %s\n  %s", flag, err, text, mark)
	}
	return err
}

// expanded replaces each @FILE by the lines of the file; @- is stdin. Empty lines and lines that begin with # do not
// count.
func expanded(names []string, stdin io.Reader) ([]string, error) {
	var all []string
	var faults []error
	for _, name := range names {
		path, isFile := strings.CutPrefix(name, "@")
		switch {
		case name == "":
			faults = append(faults, term.Usagef("--hosts has an empty name"))
			continue
		case !isFile:
			all = append(all, name)
			continue
		}
		lines, err := hostLines(path, stdin)
		all, faults = append(all, lines...), append(faults, err)
	}
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	if len(all) > mostNames {
		return nil, term.Usagef("--hosts names %d hosts: expected at most %d", len(all), mostNames)
	}
	return all, nil
}

func hostLines(path string, stdin io.Reader) (lines []string, err error) {
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return nil, term.Usagef("--hosts: cannot read hosts: %w", err)
		}
		defer f.Close() //nolint:errcheck // it was only read
		stdin = f
	}
	text, err := io.ReadAll(io.LimitReader(stdin, maxHostFile+1))
	if err != nil {
		return nil, term.Usagef("--hosts: cannot read hosts: %w", err)
	}
	if len(text) > maxHostFile {
		return nil, term.Usagef("--hosts: %s has more than %d bytes", path, maxHostFile)
	}
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			lines = append(lines, line)
		}
	}
	if len(lines) == 0 {
		return nil, term.Usagef("--hosts: %s names no host", path)
	}
	return lines, nil
}
