package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"drover/client"
	"drover/internal/command"
	"drover/internal/process"
)

func newStatus() *cobra.Command {
	var s session
	var o output
	var hosts []string
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
				return usagef("%s: NAMESPACE/NAME is missing", cmd.CommandPath())
			}
			c, err := s.client(cmd)
			if err != nil {
				return err
			}
			found, err := choose(cmd.Context(), c, args, hosts, true)
			if err != nil {
				return begun(cmd, c, args, hosts, err)
			}
			w := cmd.OutOrStdout()
			if o.form != asText {
				err = printValue(w, o.form, found)
			} else {
				err = writeStatus(w, found, s.coloured(w))
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
	cmd.Flags().StringSliceVar(&hosts, "hosts", nil, "only on these hosts; ids, CLOUD:IP or patterns")
	completeHosts(cmd, &s)
	o.flags(cmd, asText, asJSON, asYAML)
	s.flags(cmd)
	return cmd
}

// begun tells of processes that no host knows because their first operation is under way; otherwise unknown is what
// there is to say.
func begun(cmd *cobra.Command, c *client.Client, names, hosts []string, unknown error) error {
	told := false
	for _, arg := range names {
		namespace, name, ok := strings.Cut(arg, "/")
		if !ok {
			return unknown
		}
		found, err := c.Why(cmd.Context(), client.WhyFilter{Namespace: namespace, Name: name, Hosts: hosts, All: true})
		if err != nil {
			return unknown
		}
		for _, f := range found.Findings {
			if f.Cause.ID != string(process.CauseOperating) {
				continue
			}
			told = true
			if _, err := fmt.Fprintf(cmd.OutOrStdout(), "○ %s on %s: %s\n", printable(f.Namespace+"/"+f.Name),
				printable(f.Host.ID), printable(f.Cause.Text)); err != nil {
				return err
			}
		}
	}
	if !told {
		return unknown
	}
	return &command.ExitError{Code: command.NotRunning}
}

// asText is the form of output for single objects.
const asText = "text"

// field is a line of a text.
type field struct{ name, value string }

// writeFields writes the fields that have a value, their names set to the right.
func writeFields(w io.Writer, fields []field) error {
	width := 0
	for _, f := range fields {
		if f.value != "" {
			width = max(width, len(f.name))
		}
	}
	for _, f := range fields {
		if f.value == "" {
			continue
		}
		if _, err := fmt.Fprintf(w, "  %*s: %s\n", width, f.name, printable(f.value)); err != nil {
			return err
		}
	}
	return nil
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
		case process.StateGivenUp, process.StateFlapping, process.StateUnhealthy:
			mark = "×"
		}
		if coloured {
			state = paint(state)
		}
		if _, err := fmt.Fprintf(w, "%s%s %s on %s: %s\n", gap, mark, printable(p.Namespace+"/"+p.Name),
			printable(p.Host.ID), state); err != nil {
			return err
		}
		if err := writeFields(w, statusFields(p)); err != nil {
			return err
		}
	}
	return nil
}

func statusFields(p client.Process) []field {
	hosted := "no"
	if p.Hosted {
		hosted = hostedText(p)
	}
	fields := []field{{"Message", p.Message}, {"Cause", sinceWhen(p)}}
	for _, c := range p.Further {
		fields = append(fields, field{"Also", c.Text + " [" + c.ID + "]" + lasting(c)})
	}
	fields = append(fields, field{"Hosted", hosted}, field{"Wanted", p.Want}, field{"Restarts", number(p.Restarts)})
	if i := p.Instance; i != nil {
		fields = append(fields,
			field{"Started", ago(stamp(i.StartedAt), since(i.StartedAt))},
			field{"Process", strings.TrimSpace(fmt.Sprintf("%d %s", i.PID, i.Cmdline))},
			field{"Threads", fmt.Sprint(i.Threads)},
			field{"Memory", fmt.Sprintf("%s (%s)", size(i.RSS), percent(i.Mem))},
			field{"CPU", percent(i.CPU)},
			field{"Version", i.Version},
			field{"Health", i.Health},
		)
	}
	if spec := p.Spec; spec != nil {
		fields = append(fields,
			field{"Directory", spec.Identity.SetupPath},
			field{"User", spec.Identity.User},
			field{"Pid file", spec.Identity.PIDPath},
			field{"Start", spec.Commands.Start},
			field{"Stop", spec.Commands.Stop},
		)
	}
	if p.NextRun != nil {
		fields = append(fields, field{"Next run", stamp(p.NextRun)})
	}
	fields = append(fields, field{"Last start", ago(stamp(p.LastStartAt), since(p.LastStartAt))},
		field{"Reported", ago(stamp(p.ReportedAt), since(p.ReportedAt))})
	return append(fields, field{"Host", heard(p.Host)})
}

// heard tells how old all that is shown of a host is.
func heard(h client.Host) string {
	last := ""
	if h.LastSeen != nil {
		last = "last heard " + since(h.LastSeen) + " ago"
	}
	switch {
	case h.Online:
		return last
	case last == "":
		return "away, no report since the server started: this is the last known state"
	}
	return "away, " + last + ": this is the last known state"
}

// hostedText says what being hosted means for a process.
func hostedText(p client.Process) string {
	kind := process.Resident
	if p.Spec != nil && p.Spec.Policy.Kind != "" {
		kind = process.Kind(p.Spec.Policy.Kind)
	}
	switch kind {
	case process.Periodic:
		return "yes, started by its timetable"
	case process.SingleRun:
		return "yes, a single run: drover does not relaunch it"
	case process.Resident:
	}
	return "yes, relaunched if it exits"
}

// sinceWhen is the first cause and how long it has been there.
func sinceWhen(p client.Process) string {
	if p.Cause == nil {
		return ""
	}
	return p.Cause.ID + lasting(*p.Cause)
}

// ago is a moment and how long it is past; nothing where there is none.
func ago(moment, age string) string {
	if moment == "" {
		return ""
	}
	return moment + " (" + age + " ago)"
}
