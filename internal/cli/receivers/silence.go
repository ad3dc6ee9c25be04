package receivers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	v1 "drover/api/v1"
	"drover/client"
	"drover/internal/cli/remote"
	"drover/internal/cli/term"
)

// NewSilence returns the command that withholds alarms, with the commands about silences.
func NewSilence() *cobra.Command {
	resource := remote.Resource[v1.Silence]{
		List: silenceList(), Names: silenceList().Names, Show: showSilence, Prefixes: true,
		Verbs: []remote.Verb[v1.Silence]{
			silenceCreate(),
			{
				Use: "show ID",
				Call: func(ctx context.Context, c *client.Client, args []string) (v1.Silence, error) {
					return c.Silence(ctx, args[0])
				},
			},
			{
				Use: "remove ID",
				Call: func(ctx context.Context, c *client.Client, args []string) (v1.Silence, error) {
					return c.RemoveSilence(ctx, args[0])
				},
				Already: func(ctx context.Context, c *client.Client, args []string) string {
					if s, err := c.Silence(ctx, args[0]); err != nil || s.State != "ended" {
						return "" // the call knows
					}
					return fmt.Sprintf("nothing changed: silence %s had ended already", args[0])
				},
			},
		},
	}
	var silence *cobra.Command
	var rest []*cobra.Command
	for _, cmd := range resource.Commands() {
		if cmd.Name() == "silence" {
			silence = cmd
		} else {
			rest = append(rest, cmd)
		}
	}
	silence.AddCommand(rest...)
	return silence
}

func silenceList() remote.List[v1.Silence] {
	return remote.List[v1.Silence]{
		Use: "list", None: "no silences",
		ID: func(s v1.Silence) string { return s.ID },
		Columns: []term.Column[v1.Silence]{
			{Head: "ID", Cell: func(s v1.Silence) string { return s.ID }},
			{Head: "STATE", State: true, Cell: func(s v1.Silence) string { return s.State }},
			{Head: "FROM", Cell: func(s v1.Silence) string { return term.Stamp(windowFrom(&s)) }},
			{Head: "UNTIL", Cell: func(s v1.Silence) string { return term.Stamp(windowUntil(&s)) }},
			{Head: "CRON", Cell: func(s v1.Silence) string { return strings.TrimSpace(s.Cron + " " + s.TimeZone) }},
			{Head: "ALARMS WITHHELD", Cell: func(s v1.Silence) string { return fmt.Sprint(s.Withheld) }},
			{Head: "COVERS", Cell: covered},
			{Head: "BY", Cell: func(s v1.Silence) string { return term.Caller(s.App, s.User) }},
			{Head: "WHY", Cell: func(s v1.Silence) string { return s.Message }},
		},
		Rows: func(ctx context.Context, c *client.Client, _ []string) ([]v1.Silence, error) {
			return c.Silences(ctx, false)
		},
	}
}

// windowFrom returns the beginning of the present window, or of the next one.
func windowFrom(s *v1.Silence) *time.Time {
	if s.WindowFrom != nil {
		return s.WindowFrom
	}
	return &s.From
}

// windowUntil returns the end of that window.
func windowUntil(s *v1.Silence) *time.Time {
	if s.WindowUntil != nil {
		return s.WindowUntil
	}
	return unlessZero(&s.Until)
}

// unlessZero returns a time; nil if it is zero.
func unlessZero(t *time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return t
}

// covered describes what a silence covers.
func covered(s v1.Silence) string {
	parts := append([]string{}, s.Processes...)
	for _, host := range s.Hosts {
		parts = append(parts, "hosts:"+host)
	}
	if s.Select != "" {
		parts = append(parts, "hosts:"+s.Select)
	}
	if s.Labels != "" {
		parts = append(parts, "labels:"+s.Labels)
	}
	return strings.Join(parts, " ")
}

func showSilence(s v1.Silence) (state string, fields []term.Field) {
	fields = []term.Field{
		{"Processes", strings.Join(s.Processes, ",")},
		{"Hosts", strings.TrimSpace(strings.Join(s.Hosts, ",") + " " + s.Select)},
		{"Process labels", s.Labels},
		{"From", term.Stamp(&s.From)},
		{"Until", term.Stamp(unlessZero(&s.Until))},
	}
	if s.Cron != "" {
		length := time.Duration(s.Seconds * float64(time.Second))
		fields = append(fields,
			term.Field{"Windows", strings.TrimSpace(s.Cron+" "+s.TimeZone) + " for " + length.String()})
		if s.WindowFrom != nil {
			which := "Next window"
			if s.State == "active" {
				which = "Present window"
			}
			fields = append(fields,
				term.Field{which, term.Stamp(s.WindowFrom) + " to " + term.Stamp(s.WindowUntil)})
		}
	}
	if s.RemovedAt != nil {
		fields = append(fields, term.Field{"Removed", term.Stamp(s.RemovedAt)})
	}
	return s.State, append(fields, term.Field{"Alarms withheld", fmt.Sprint(s.Withheld)},
		term.Field{"Why", s.Message}, term.Field{"By", term.Caller(s.App, s.User)},
		term.Field{"Created", term.Stamp(&s.CreatedAt)})
}

func silenceCreate() remote.Verb[v1.Silence] {
	var request v1.SilenceRequest
	var hosts remote.Hosts
	var length time.Duration
	var from, until string
	var silence *cobra.Command
	return remote.Verb[v1.Silence]{
		Use: "silence [PROCESS...] --for DURATION",
		New: true, Hosts: &hosts, HostsHelp: "only on these hosts",
		Flags: func(cmd *cobra.Command) {
			silence = cmd
			f := cmd.Flags()
			f.StringVar(&request.Labels, "process-label", "", "only processes whose own labels match, such as tier=front")
			term.LengthVar(f, &length, "for", 0, "length of the silence, such as 2h")
			f.StringVar(&from, "from", "", "begin at this time: RFC 3339, or a time from now on such as 30m (default now)")
			f.StringVar(&until, "until", "", "end at this time, instead of --for: RFC 3339, or a time from now on such as 3h")
			f.StringVar(&request.Cron, "cron", "", "begin a window at these times: a crontab rule such as '0 2 * * 0'")
			f.StringVar(&request.TimeZone, "zone", "", "time zone of --cron, such as Europe/Berlin (default the server's)")
			f.StringVarP(&request.Message, "message", "m", "", "reason, for other people")
			cmd.PreRunE = term.Chain(cmd.PreRunE, func(cmd *cobra.Command, args []string) error {
				begin, err1 := term.Ahead("--from", from)
				end, err2 := term.Ahead("--until", until)
				request.From, request.Until = unlessZero(&begin), unlessZero(&end)
				request.Processes, request.Seconds = args, length.Seconds()
				request.Hosts, request.Select = hosts.Names, hosts.Selector
				return errors.Join(err1, err2, checkSilence(cmd, &request, length, until))
			})
		},
		Request: func([]string) (any, []string) { return request, toldOfSilence(&request, until != "") },
		Fields: map[string]string{
			"processes": "PROCESS", "hosts": "--hosts", "select": "--selector", "labels": "--process-label",
			"from": "--from", "until": "--until", "seconds": "--for", "cron": "--cron", "time_zone": "--zone",
			"message": "--message",
		},
		Call: func(ctx context.Context, c *client.Client, _ []string) (v1.Silence, error) {
			made, err := c.CreateSilence(ctx, request)
			if err == nil {
				sayUncovered(ctx, silence, c, made)
			}
			return made, err
		},
	}
}

// checkSilence tells the faults of the flags and the arguments.
func checkSilence(cmd *cobra.Command, r *v1.SilenceRequest, length time.Duration, until string) error {
	faults := []error{remote.CheckSelector(cmd, "process-label", r.Labels)}
	fault := func(format string, args ...any) { faults = append(faults, term.Usagef(format, args...)) }
	repeats := cmd.Flags().Changed("cron")
	if !repeats && r.TimeZone != "" {
		fault("--zone is for --cron: give both")
	}
	switch {
	case length < 0, length == 0 && cmd.Flags().Changed("for"):
		fault("--for is %s: expected a length of more than 0, such as 2h", length)
	case repeats && length == 0:
		fault("--cron needs --for DURATION, the length of each window, such as --for 2h")
	case !repeats && length > 0 && until != "":
		fault("--for and --until exclude each other without --cron")
	case !repeats && length == 0 && until == "":
		fault("expected --for DURATION or --until TIME, such as --for 2h")
	}
	if !cmd.Flags().Changed("hosts") && len(r.Processes) == 0 && r.Select+r.Labels == "" {
		fault("PROCESS is missing: expected PROCESS, --hosts, --selector or --process-label; */* stands for all processes")
	}
	for _, arg := range r.Processes {
		if !strings.Contains(arg, "/") {
			fault("%q is neither a command nor a process: expected NAMESPACE/NAME, such as shop/*", arg)
		}
	}
	return errors.Join(faults...)
}

// toldOfSilence returns the fields whose faults checkSilence and the flags tell.
func toldOfSilence(r *v1.SilenceRequest, ends bool) []string {
	told := []string{"select", "labels"}
	if r.Until == nil {
		told = append(told, "until")
	}
	if r.Cron == "" {
		told = append(told, "cron")
	}
	if r.Seconds <= 0 || r.Cron == "" && ends {
		told = append(told, "seconds")
	}
	if len(r.Processes) == 0 {
		told = append(told, "processes")
	}
	for i, arg := range r.Processes {
		if !strings.Contains(arg, "/") {
			told = append(told, fmt.Sprintf("processes[%d]", i))
		}
	}
	return told
}

// sayUncovered says which parts of a silence cover nothing now, because a name may be misspelt. An error of a list says
// nothing: the silence exists.
func sayUncovered(ctx context.Context, cmd *cobra.Command, c *client.Client, s v1.Silence) {
	part := s
	noHost := func(f client.HostFilter, text string) bool {
		found, err := client.Collect(c.Hosts(ctx, f))
		if err != nil || len(found) > 0 {
			return false
		}
		term.Say(cmd, "no host matches %s now; the silence covers hosts that come later\n", text)
		return true
	}
	for _, host := range s.Hosts {
		if noHost(client.HostFilter{Hosts: []string{host}, Limit: 1}, host) {
			part.Hosts = slices.DeleteFunc(slices.Clone(part.Hosts), func(h string) bool { return h == host })
		}
	}
	if s.Select != "" && noHost(client.HostFilter{Selector: s.Select, Limit: 1}, s.Select) {
		part.Select = ""
	}
	f := client.ProcessFilter{Hosts: part.Hosts, Selector: part.Select, Limit: 1}
	f.ProcessSelector = s.Labels
	sayUnless := func(part v1.Silence) {
		if found, err := client.Collect(c.Processes(ctx, f)); err == nil && len(found) == 0 {
			term.Say(cmd, "no process matches %s now; the silence covers processes that come later\n", covered(part))
		}
	}
	if len(s.Processes) == 0 && s.Labels != "" {
		sayUnless(part)
	}
	for _, name := range s.Processes {
		part.Processes = []string{name}
		f.Namespace, f.Name, _ = strings.Cut(name, "/")
		sayUnless(part)
	}
}
