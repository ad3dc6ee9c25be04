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
		Short: "Show how processes are, and why",
		Long: `Show how processes are on each host that knows them: state and since when, process id, resources, commands, message.

Exit codes: 0 all are running, 3 one is not, 4 there is no such process.`,
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
				return err
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
	cmd.Flags().StringSliceVar(&hosts, "hosts", nil, "only on these hosts, or on those of a pattern")
	completeHosts(cmd, &s)
	o.flags(cmd, asText, asJSON, asYAML)
	s.flags(cmd)
	return cmd
}

// asText is the form of what is shown one by one.
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
		if _, err := fmt.Fprintf(w, "%s%s %s on %s: %s\n", gap, mark, printable(p.Namespace+"/"+p.Name), printable(p.Host.ID), state); err != nil {
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
		hosted = "yes, started again when it ends by itself"
	}
	fields := []field{{"Message", p.Message}, {"Cause", causeOf(p)}, {"Hosted", hosted}, {"Wanted", p.Want}, {"Restarts", number(p.Restarts)}}
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
	fields = append(fields, field{"Last start", ago(stamp(p.LastStartAt), since(p.LastStartAt))}, field{"Reported", ago(stamp(p.ReportedAt), since(p.ReportedAt))})
	if !p.Host.Online {
		fields = append(fields, field{"Host", "away: this is what was last known"})
	}
	return fields
}

// ago is a moment and how long it is past; nothing where there is none.
func ago(moment, age string) string {
	if moment == "" {
		return ""
	}
	return moment + " (" + age + " ago)"
}
