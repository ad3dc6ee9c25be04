package processes

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"drover/client"
	"drover/internal/cli/remote"
	"drover/internal/cli/term"
	"drover/internal/command"
	"drover/internal/process"
)

// NewStatus returns 'drover status'.
func NewStatus() *cobra.Command {
	var s remote.Session
	var sel selection
	cmd := &cobra.Command{
		Use:   "status NAMESPACE/NAME...",
		Short: "Show the state of processes, and its cause",
		Long: `Show processes on each host that knows them: state and its age, process id,
resources, commands and message.

Exit codes: 0 all processes are running, 3 a process is not running, 4 no such process.`,
		Example: `  drover status web/nginx
  drover status web/nginx --hosts 0:10.0.0.1 -o yaml`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return term.Usagef("%s: NAMESPACE/NAME is missing", cmd.CommandPath())
			}
			c, err := s.Client(cmd)
			if err != nil {
				return err
			}
			found, err := sel.choose(cmd.Context(), c, args, true)
			if err != nil {
				return begun(cmd, c, args, &sel, err)
			}
			w := cmd.OutOrStdout()
			if s.Form != term.AsText {
				err = term.PrintValue(w, s.Form, found)
			} else {
				err = writeStatus(w, found, s.Coloured(w))
			}
			if err != nil {
				return err
			}
			for _, p := range found {
				if p.Instance == nil || p.Stale {
					return &command.ExitError{Code: command.NotRunning}
				}
			}
			return nil
		},
		ValidArgsFunction: completeProcesses(&s),
	}
	sel.flags(cmd, &s)
	sel.FailedFlag(cmd)
	s.Flags(cmd, term.AsText, term.AsJSON, term.AsYAML)
	return cmd
}

// begun reports processes that no host knows yet because their first operation is under way. Otherwise it returns
// unknown.
func begun(cmd *cobra.Command, c *client.Client, names []string, sel *selection, unknown error) error {
	told := false
	for _, arg := range names {
		namespace, name, ok := strings.Cut(arg, "/")
		if !ok {
			return unknown
		}
		if len(sel.Names) > remote.MostAsked || sel.narrow() {
			return unknown
		}
		found, err := c.Why(cmd.Context(), client.WhyFilter{
			Namespace: namespace, Name: name, Hosts: sel.Names, All: true,
		})
		if err != nil {
			return unknown
		}
		for _, f := range found.Findings {
			if f.Cause.ID != string(process.CauseOperating) {
				continue
			}
			told = true
			if _, err := fmt.Fprintf(cmd.OutOrStdout(), "○ %s on %s: %s\n", term.Printable(f.Namespace+"/"+f.Name),
				term.Printable(f.Host.ID), term.Printable(f.Cause.Text)); err != nil {
				return err
			}
		}
	}
	if !told {
		return unknown
	}
	return &command.ExitError{Code: command.NotRunning}
}

func writeStatus(w io.Writer, processes []client.Process, coloured bool) error {
	for i, p := range processes {
		gap := "\n"
		if i == 0 {
			gap = ""
		}
		mark, state := "●", stateOf(p)
		if p.Instance == nil {
			mark = "○"
		}
		switch p.State {
		case process.StateGivenUp, process.StateFlapping, process.StateUnhealthy, process.StateNotReady:
			mark = "×"
		}
		if coloured {
			state = term.Paint(state)
		}
		if _, err := fmt.Fprintf(w, "%s%s %s on %s: %s\n", gap, mark, term.Printable(p.Namespace+"/"+p.Name),
			term.Printable(p.Host.ID), state); err != nil {
			return err
		}
		if err := term.WriteFields(w, statusFields(p)); err != nil {
			return err
		}
	}
	return nil
}

func statusFields(p client.Process) []term.Field {
	hosted := "no"
	if p.Hosted {
		hosted = hostedText(p)
	}
	fields := []term.Field{{"Message", p.Message}, {"Cause", sinceWhen(p)}}
	for _, c := range p.Further {
		fields = append(fields, term.Field{"Also", c.Text + " [" + c.ID + "]" + lasting(c)})
	}
	fields = append(fields, term.Field{"Hosted", hosted}, term.Field{"Wanted", p.Want},
		term.Field{"Restarts", number(p.Restarts)}, term.Field{"Revision", runsWith(p)})
	if i := p.Instance; i != nil {
		fields = append(fields,
			term.Field{"Started", ago(term.Stamp(i.StartedAt), term.Since(i.StartedAt))},
			term.Field{"Process", strings.TrimSpace(fmt.Sprintf("%d %s", i.PID, i.Cmdline))},
			term.Field{"Threads", fmt.Sprint(i.Threads)},
			term.Field{"Memory", fmt.Sprintf("%s (%s)", term.Size(i.RSS), term.Percent(i.Mem))},
			term.Field{"CPU", term.Percent(i.CPU)},
			term.Field{"Version", i.Version},
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

// heard says how old the data of a host is.
func heard(h client.Host) string {
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
func hostedText(p client.Process) string {
	switch spec := p.Spec; {
	case spec != nil && spec.Schedule != nil:
		return "yes, started by its timetable"
	case spec != nil && spec.Once:
		return "yes, a single run: drover does not relaunch it"
	}
	return "yes, relaunched if it exits"
}

// sinceWhen is the first cause and its age.
func sinceWhen(p client.Process) string {
	if p.Cause == nil {
		return ""
	}
	return p.Cause.ID + lasting(*p.Cause)
}

// ago is a moment and its age; empty if there is no moment.
func ago(moment, age string) string {
	if moment == "" {
		return ""
	}
	return moment + " (" + age + " ago)"
}
