package list

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	v1 "drover/api/v1"
	"drover/client"
	"drover/internal/cli/events"
	"drover/internal/cli/remote"
	"drover/internal/cli/selection"
	"drover/internal/cli/term"
	"drover/internal/command"
	"drover/internal/process"
	"drover/internal/words"
)

// SayBreakers tells the open breakers that a command is about. Processes that run do not show them.
func SayBreakers(cmd *cobra.Command, s *remote.Session, c *client.Client, about func(*v1.Breaker) bool) {
	open, err := c.Breakers(cmd.Context(), false)
	if err != nil {
		return // the answer of the command is complete without them
	}
	for i := range open {
		if b := &open[i]; about(b) {
			id := b.Namespace + "/" + b.Name
			term.Say(cmd, "a breaker withholds relaunches of %s until %s, because %d of %d hosts failed (%s); to end it: %s\n",
				term.Printable(id), term.Stamp(&b.UntilAt), b.Failed, b.Hosts, term.Printable(b.Cause),
				s.Again("breaker reset %s", id))
		}
	}
}

// CauseText is the sentence of a cause, in a language and with local times.
func CauseText(c v1.Cause, lang words.Lang) string {
	return term.Printable(term.Local(words.CauseSentence(c.ID, c.Text, lang)))
}

// Lasting says how long a cause has existed.
func Lasting(c v1.Cause, lang words.Lang) string {
	if c.Since == nil || time.Since(*c.Since) < time.Second {
		return ""
	}
	return words.Explained.For.In(lang, "age", term.Since(c.Since))
}

// runsWith names the revision of a process, and the other one that it runs with.
func runsWith(p v1.Process) string {
	switch {
	case p.Revision == 0:
		return ""
	case p.Instance == nil || p.Instance.Revision == 0 || p.Instance.Revision == p.Revision:
		return strconv.FormatInt(p.Revision, 10)
	}
	return fmt.Sprintf("runs with %d, stored is %d", p.Instance.Revision, p.Revision)
}

// NewStatus returns 'drover status'.
func NewStatus() *cobra.Command {
	var s remote.Session
	var sel selection.Selection
	cmd := &cobra.Command{
		Use:  "status NAMESPACE/NAME...",
		Args: term.Args,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := s.Client(cmd)
			if err != nil {
				return err
			}
			found, lacking := sel.Choose(cmd.Context(), c, args, true)
			if lacking != nil && len(found) == 0 {
				return begun(cmd, c, args, &sel, lacking)
			}
			underWay(cmd.Context(), c, found)
			w := cmd.OutOrStdout()
			if s.Form != term.AsText {
				err = term.PrintValue(w, s.Form, found)
			} else {
				err = writeStatus(w, found, s.Output)
				SayBreakers(cmd, &s, c, func(b *v1.Breaker) bool {
					return slices.ContainsFunc(found, func(p v1.Process) bool {
						return p.Namespace == b.Namespace && p.Name == b.Name
					})
				})
			}
			if err != nil || lacking != nil {
				return cmp.Or(err, lacking)
			}
			for _, p := range found {
				if p.Instance == nil || p.Stale {
					return &command.ExitError{Code: command.NotRunning}
				}
			}
			return nil
		},
		ValidArgsFunction: selection.CompleteProcesses(&s),
	}
	sel.ProcessFlags(cmd, &s)
	sel.FailedFlag(cmd)
	s.Flags(cmd, term.AsText, term.AsJSON, term.AsYAML)
	remote.Watch(&s, cmd)
	return cmd
}

// begun reports processes that no host knows yet because their first operation is under way. Otherwise it returns
// unknown.
func begun(cmd *cobra.Command, c *client.Client, names []string, sel *selection.Selection, unknown error) error {
	told := false
	for _, arg := range names {
		namespace, name, ok := strings.Cut(arg, "/")
		if !ok {
			return unknown
		}
		if len(sel.Names) > remote.MostAsked || sel.Narrow() {
			return unknown
		}
		found, err := c.Why(cmd.Context(), client.WhyFilter{
			Namespace: namespace, Name: name, Hosts: sel.Names, All: true,
		})
		if err != nil {
			return unknown
		}
		for _, f := range found.Findings {
			if f.Cause.ID != string(process.CauseOperating) && f.Cause.ID != string(process.CauseQueued) {
				continue
			}
			told = true
			w := cmd.OutOrStdout()
			lang := term.Lang(cmd, w)
			if _, err := fmt.Fprintf(w, "%s %s\n", words.ClassOf(process.StateOperating).Mark(), words.Explained.On.In(lang,
				"text", CauseText(f.Cause, lang),
				"process", term.Printable(f.Namespace+"/"+f.Name), "host", term.Printable(f.Host.ID))); err != nil {
				return err
			}
		}
	}
	if !told {
		return unknown
	}
	return &command.ExitError{Code: command.NotRunning}
}

// mostUnderWay is the number of processes that are down of which a list asks whether an operation on them has begun.
const mostUnderWay = 5

// underWay shows the operation under way on processes that are down. Hosts tell of an operation only if it is not over
// in a moment, and until then what they told before is not true any more.
func underWay(ctx context.Context, c *client.Client, found []v1.Process) {
	var down []*v1.Process
	for i := range found {
		if p := &found[i]; p.Instance == nil && !p.Stale && p.State != process.StateOperating {
			down = append(down, p)
		}
	}
	if len(down) > mostUnderWay {
		return
	}
	for _, p := range down {
		found, err := c.Why(ctx, client.WhyFilter{
			Namespace: p.Namespace, Name: p.Name, Hosts: []string{p.Host.ID}, All: true,
		})
		if err != nil {
			return // the list is still what the hosts have told
		}
		for _, f := range found.Findings {
			if f.Cause.ID == string(process.CauseOperating) {
				p.State, p.Message, p.Cause = process.StateOperating, f.Cause.Text, &f.Cause
			}
		}
	}
}

func writeStatus(w io.Writer, processes []v1.Process, o term.Output) error {
	lang := o.Lang(w)
	for i, p := range processes {
		gap := "\n"
		if i == 0 {
			gap = ""
		}
		mark, state := words.ClassOf(p.State).Mark(), stateOf(p)
		if p.Stale {
			mark = words.ClassOf("stale").Mark()
		}
		if lang != words.English {
			state = words.Named(p.State, lang)
		}
		if o.Coloured(w) {
			state = term.PaintAs(stateOf(p), state)
		}
		if _, err := fmt.Fprintf(w, "%s%s %s\n", gap, mark, words.Explained.On.In(lang, "text", state,
			"process", term.Printable(p.Namespace+"/"+p.Name), "host", term.Printable(p.Host.ID))); err != nil {
			return err
		}
		if err := o.WriteFields(w, statusFields(p, lang)); err != nil {
			return err
		}
	}
	return nil
}

func statusFields(p v1.Process, lang words.Lang) []term.Field {
	hosted := "no"
	if p.Hosted {
		hosted = hostedText(p)
	}
	fields := []term.Field{{"Message", p.Message}, {"Cause", sinceWhen(p, lang)}}
	for _, c := range p.Further {
		text := CauseText(c, lang)
		fields = append(fields, term.Field{"Also", text + " [" + c.ID + "]" + Lasting(c, lang)})
	}
	fields = append(fields, term.Field{"Hosted", hosted}, term.Field{"Wanted", p.Want},
		term.Field{"Restarts", events.Number(p.Restarts)}, term.Field{"Revision", runsWith(p)})
	if i := p.Instance; i != nil {
		used := remote.Used(&p)
		fields = append(fields,
			term.Field{"Started", ago(term.Stamp(i.StartedAt), term.Since(i.StartedAt))},
			term.Field{"Process", strings.TrimSpace(fmt.Sprintf("%d %s", i.PID, i.Cmdline))},
			term.Field{"Threads", fmt.Sprint(i.Threads)},
			term.Field{"Memory", fmt.Sprintf("%s (%s)", term.Size(used.RSS), term.Percent(used.Mem))},
			term.Field{"CPU/host", term.Percent(used.CPU)},
			term.Field{"Version", versionText(p)},
			term.Field{"Health", i.Health},
		)
	}
	if spec := p.Spec; spec != nil {
		fields = append(fields,
			term.Field{"Directory", cmp.Or(spec.Directory, "/")},
			term.Field{"User", spec.User},
			term.Field{"Pid file", spec.PIDFile},
			term.Field{"Run", spec.Run},
			term.Field{"Start", spec.Start},
			term.Field{"Stop", spec.Stop},
		)
	}
	if p.NextRun != nil {
		fields = append(fields, term.Field{"Next run", term.Stamp(p.NextRun)})
	}
	fields = append(fields, term.Field{"Last start", ago(term.Stamp(p.LastStartAt), term.Since(p.LastStartAt))},
		term.Field{"Reported", ago(term.Stamp(p.ReportedAt), term.Since(p.ReportedAt))})
	return append(fields, term.Field{"Host", heard(p.Host)})
}

// versionText is the version of the running process, or why its version command has not told it.
func versionText(p v1.Process) string {
	if a := p.Version; p.Instance.Version == "" && a != nil && !a.OK {
		return "not known: " + a.Text
	}
	return p.Instance.Version
}

// heard says how old the data of a host is.
func heard(h v1.Host) string {
	last := ""
	if h.LastSeen != nil {
		last = "last heard " + term.Since(h.LastSeen) + " ago"
	}
	switch {
	case h.Online:
		return last
	case last == "":
		return "away, no report since the server started: this is the last known state"
	}
	return "away, " + last + ": this is the last known state"
}

// hostedText explains what hosting means for a process.
func hostedText(p v1.Process) string {
	switch spec := p.Spec; {
	case spec != nil && spec.Schedule != nil:
		return "yes, started by its timetable"
	case spec != nil && (spec.Once || spec.OnDemand):
		return "yes, a single run: drover does not relaunch it"
	case spec != nil && spec.Restart != nil && spec.Restart.When == process.Never:
		return "yes, never relaunched: its restart policy says so"
	case spec != nil && spec.Restart != nil && spec.Restart.When == process.OnFailure:
		return "yes, relaunched if it fails"
	}
	return "yes, relaunched if it exits"
}

// sinceWhen is the first cause and its age.
func sinceWhen(p v1.Process, lang words.Lang) string {
	if p.Cause == nil || p.Cause.ID == "" { // what is under way without one says so in its message
		return ""
	}
	return p.Cause.ID + Lasting(*p.Cause, lang)
}

// ago is a moment and its age; empty if there is no moment.
func ago(moment, age string) string {
	if moment == "" {
		return ""
	}
	return moment + " (" + age + " ago)"
}

// NewIsActive returns 'drover is-active'.
func NewIsActive() *cobra.Command {
	return newIs("is-active", "active", command.NotRunning)
}

// NewIsFailed returns 'drover is-failed'.
func NewIsFailed() *cobra.Command {
	return newIs("is-failed", "failed", command.Failed)
}

// newIs returns a command that compares the words of processes with a wanted word. none is its exit code if no process
// has the word.
func newIs(name, wanted string, none int) *cobra.Command {
	var s remote.Session
	var sel selection.Selection
	var quiet bool
	cmd := &cobra.Command{
		Use:  name + " NAMESPACE/NAME...",
		Args: term.Args,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := s.Client(cmd)
			if err != nil {
				return err
			}
			if err := sel.Resolve(cmd.Context(), c); err != nil {
				return err
			}
			code := command.NoSuch
			for _, arg := range args {
				found, err := sel.Matching(cmd.Context(), c, arg, false)
				if err != nil {
					return err
				}
				found = sel.Limited(found)
				selection.SortProcesses(found)
				words := []string{"unknown"}
				if len(found) > 0 {
					words = unitWords(found)
					code = min(code, none)
				}
				if slices.Contains(words, wanted) {
					code = command.Done
				}
				if quiet {
					continue
				}
				if _, err := fmt.Fprintln(cmd.OutOrStdout(), strings.Join(words, "\n")); err != nil {
					return err
				}
			}
			if code != command.Done {
				return &command.ExitError{Code: code}
			}
			return nil
		},
		ValidArgsFunction: selection.CompleteProcesses(&s),
	}
	cmd.Flags().BoolVarP(&quiet, "quiet", "q", false, "print nothing: the exit code tells")
	sel.ProcessFlags(cmd, &s)
	sel.FailedFlag(cmd)
	s.Flags(cmd)
	return cmd
}

// hasFailed reports whether drover has given up a process, or its single run has ended without success.
func hasFailed(p *v1.Process) bool {
	s := process.Status{State: p.State}
	if p.Cause != nil {
		s.Cause.ID = process.CauseID(p.Cause.ID)
	}
	return p.State == process.StateGivenUp || s.EndedBadly()
}

// unitWords are the words of systemd for processes.
func unitWords(processes []v1.Process) []string {
	words := make([]string, len(processes))
	for i := range processes {
		words[i] = unitWord(&processes[i])
	}
	return words
}

// unitWord returns the state of a process in a word of systemd.
func unitWord(p *v1.Process) string {
	state := p.State
	if state == process.StateFlapping {
		state = process.StateBackoff
		if p.Instance != nil {
			state = process.StateRunning
		}
	}
	switch {
	case p.Stale || state == process.StateUnknown:
		return "unknown"
	case slices.Contains([]string{process.StateRunning, process.StateUnhealthy}, state):
		return "active"
	case slices.Contains([]string{
		process.StateStarting, process.StateNotReady, process.StateBackoff, process.StateOperating,
	}, state):
		return "activating"
	case state == process.StateStopping:
		return "deactivating"
	case hasFailed(p):
		return "failed"
	}
	return "inactive"
}
