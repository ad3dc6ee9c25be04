package operations

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	v1 "drover/api/v1"
	"drover/client"
	"drover/internal/cli/remote"
	"drover/internal/cli/selection"
	"drover/internal/cli/term"
	"drover/internal/process"
)

// oneOfFlags are the flags of an operation on one host of many.
type oneOfFlags struct{ oneOf, again bool }

func (o *oneOfFlags) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.BoolVar(&o.oneOf, "one-of", false, "operate on one of the connected hosts only")
	f.BoolVar(&o.again, "again-when-lost", false,
		"with --one-of: operate on another host, too, if the first one may have begun the operation and has vanished")
	cmd.PreRunE = term.Chain(cmd.PreRunE, func(cmd *cobra.Command, _ []string) error {
		switch {
		case o.again && !o.oneOf:
			return term.Usagef("--again-when-lost is for --one-of: give both")
		case o.oneOf && cmd.Flags().Changed("batch"):
			return term.Usagef("--one-of and --batch exclude each other")
		}
		return nil
	})
}

// NewSchedule returns 'drover schedule'.
func NewSchedule() *cobra.Command {
	return remote.Resource[v1.OperationSchedule]{
		Use:  "schedule",
		List: scheduleList(), Names: scheduleList().Names, Show: showSchedule,
		Verbs: []remote.Verb[v1.OperationSchedule]{
			scheduleCreate(),
			{
				Use: "show NAME",
				Call: func(ctx context.Context, c *client.Client, args []string) (v1.OperationSchedule, error) {
					return c.Schedule(ctx, args[0])
				},
			},
			{
				Use: "pause NAME",
				Call: func(ctx context.Context, c *client.Client, args []string) (v1.OperationSchedule, error) {
					return c.PauseSchedule(ctx, args[0])
				},
				Already: inState("paused"),
			},
			{
				Use: "resume NAME",
				Call: func(ctx context.Context, c *client.Client, args []string) (v1.OperationSchedule, error) {
					return c.ResumeSchedule(ctx, args[0])
				},
				Already: inState("active"),
			},
			{
				Use: "run NAME",
				Call: func(ctx context.Context, c *client.Client, args []string) (v1.OperationSchedule, error) {
					return c.RunSchedule(ctx, args[0])
				},
			},
			{
				Use:  "remove NAME",
				Done: "removed schedule %s",
				Call: func(ctx context.Context, c *client.Client, args []string) (v1.OperationSchedule, error) {
					return v1.OperationSchedule{}, c.RemoveSchedule(ctx, args[0])
				},
			},
		},
	}.Command()
}

// inState says that a schedule has a state already. The call itself tells an error.
func inState(state string) func(context.Context, *client.Client, []string) string {
	return func(ctx context.Context, c *client.Client, args []string) string {
		if s, err := c.Schedule(ctx, args[0]); err != nil || s.State != state {
			return ""
		}
		return fmt.Sprintf("nothing changed: schedule %s was %s already", args[0], state)
	}
}

func scheduleList() remote.List[v1.OperationSchedule] {
	return remote.List[v1.OperationSchedule]{
		Use: "list", None: "no schedules",
		ID: func(s v1.OperationSchedule) string { return s.Name },
		Columns: []term.Column[v1.OperationSchedule]{
			{Head: "NAME", Cell: func(s v1.OperationSchedule) string { return s.Name }},
			{Head: "STATE", State: true, Cell: func(s v1.OperationSchedule) string { return s.State }},
			{Head: "CRON", Cell: func(s v1.OperationSchedule) string { return strings.TrimSpace(s.Cron + " " + s.TimeZone) }},
			{Head: "OPERATION", Cell: func(s v1.OperationSchedule) string { return requestText(&s.Request) }},
			{Head: "NEXT", Cell: func(s v1.OperationSchedule) string { return nextStamp(&s) }},
			{Head: "LAST", Cell: func(s v1.OperationSchedule) string {
				if s.Last == nil {
					return ""
				}
				return term.StampIn(&s.Last.DueAt, s.TimeZone)
			}},
			{Head: "RESULT", State: true, Cell: func(s v1.OperationSchedule) string {
				if s.Last == nil {
					return ""
				}
				return s.Last.State
			}},
			{Head: "MISSED", Cell: func(s v1.OperationSchedule) string { return strconv.Itoa(s.Missed) }},
			{Head: "BY", Cell: func(s v1.OperationSchedule) string { return term.Caller(s.App, s.User) }},
			{Head: "WHY", Wide: true, Cell: func(s v1.OperationSchedule) string { return s.Message }},
		},
		Rows: func(ctx context.Context, c *client.Client, _ []string) ([]v1.OperationSchedule, error) {
			return c.Schedules(ctx)
		},
	}
}

func nextStamp(s *v1.OperationSchedule) string {
	if len(s.NextAt) == 0 {
		return ""
	}
	return term.StampIn(&s.NextAt[0], s.TimeZone)
}

// requestText is an operation as a person would write it.
func requestText(r *v1.Request) string {
	parts := []string{r.Op}
	if r.Signal != "" {
		parts = append(parts, r.Signal)
	}
	parts = append(parts, r.Processes...)
	value := func(flag, value string) {
		if value != "" {
			parts = append(parts, flag+" "+value)
		}
	}
	given := func(flag string, is bool) {
		if is {
			parts = append(parts, flag)
		}
	}
	seconds := func(flag string, d time.Duration) {
		if d != 0 {
			parts = append(parts, flag+" "+d.String())
		}
	}
	value("--scope", r.Scope)
	value("--hosts", strings.Join(r.Hosts, ","))
	value("-l", r.Select)
	value("--process-label", r.Labels)
	seconds("--host-timeout", time.Duration(r.HostTimeout)*time.Second)
	given("--one-of", r.OneOf)
	given("--again-when-lost", r.AgainWhenLost)
	if p := r.Rollout; p != nil {
		value("--batch", p.Batch.String())
		if p.Canary > 0 {
			value("--canary", strconv.Itoa(p.Canary))
		}
		value("--canary-select", p.CanarySelect)
		given("--canary-approval", p.CanaryApproval)
		seconds("--bake", time.Duration(p.Bake))
		seconds("--pause", time.Duration(p.Pause))
		for _, size := range []struct {
			flag string
			n    v1.HostCount
		}{{"--max-failures", p.MaxFailures}, {"--max-unavailable", p.MaxUnavailable}} {
			if !size.n.IsZero() {
				value(size.flag, size.n.String())
			}
		}
		value("--order", p.Order)
		value("--spread", p.Spread)
		given("--skip-away", p.SkipAway)
	}
	return strings.Join(parts, " ")
}

// runsShown is how many runs a person sees.
const runsShown = 10

func showSchedule(s v1.OperationSchedule) (state string, fields []term.Field) {
	fields = []term.Field{
		{"Operation", requestText(&s.Request)},
		{"Cron", s.Cron},
		{"Time zone", s.TimeZone},
	}
	for i := range s.NextAt {
		fields = append(fields, term.Field{[]string{"Next", "Then"}[min(i, 1)], term.StampIn(&s.NextAt[i], s.TimeZone)})
	}
	fields = append(fields, term.Field{"Missed", strconv.Itoa(s.Missed)}, term.Field{"Why", s.Message},
		term.Field{"By", term.Caller(s.App, s.User)}, term.Field{"Created", term.Stamp(&s.CreatedAt)})
	for _, r := range s.Runs[:min(len(s.Runs), runsShown)] {
		fields = append(fields, term.Field{"Run of " + term.StampIn(&r.DueAt, s.TimeZone), runText(&r)})
	}
	return s.State, fields
}

func runText(r *v1.ScheduleRun) string {
	text := r.State
	if r.Times > 1 {
		text += ", " + strconv.Itoa(r.Times) + " times"
	}
	if id := r.Operation + r.Rollout; id != "" {
		text += ", " + id
	}
	if r.RunBy != "" {
		text += ", by " + r.RunBy
	}
	if r.Message != "" {
		text += ": " + r.Message
	}
	return text
}

func scheduleCreate() remote.Verb[v1.OperationSchedule] {
	var request v1.ScheduleRequest
	var create *cobra.Command
	var told []string // the fields whose faults the command tells itself
	return remote.Verb[v1.OperationSchedule]{
		Use: "create NAME OPERATION... --cron RULE",
		New: true,
		Flags: func(cmd *cobra.Command) {
			create = cmd
			f := cmd.Flags()
			scheduleFlags(f, &request)
			cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
				if _, ok := errors.AsType[*pflag.NotExistError](err); ok {
					return term.Usagef("%w: flags of the operation stand after --", err)
				}
				return cmd.Parent().FlagErrorFunc()(cmd, err)
			})
			cmd.PreRunE = term.Chain(cmd.PreRunE, func(cmd *cobra.Command, args []string) (err error) {
				var missing error
				if request.Cron == "" {
					told = append(told, "cron")
				}
				if !f.Changed("cron") {
					missing = term.Usagef("--cron is missing: expected five fields, such as --cron '0 3 * * *'")
				}
				if at := cmd.ArgsLenAtDash(); at != 1 || len(args) < 2 {
					told = append(told, "name", "request")
					return errors.Join(missing, term.Usagef(
						"expected NAME, -- and an operation, such as nightly --cron '0 3 * * *' -- restart 'web/*'"))
				}
				request.Name = args[0]
				if request.Request, err = scheduledRequest(args[1:]); err != nil {
					told = append(told, "request")
				}
				return errors.Join(missing, err)
			})
		},
		Request: func([]string) (any, []string) { return request, told },
		Fields: map[string]string{
			"name": "NAME", "cron": "--cron", "time_zone": "--zone", "message": "--message", "request.hosts": "--hosts",
			"request.processes": "NAMESPACE/NAME", "request.one_of": "--one-of",
		},
		Call: func(ctx context.Context, c *client.Client, _ []string) (v1.OperationSchedule, error) {
			made, err := c.CreateSchedule(ctx, request)
			if err == nil {
				sayUnmatched(ctx, create, c, &request.Request)
			}
			return made, cmp.Or(strangers(ctx, c, &request.Request, err), err)
		},
	}
}

// strangers returns the names of no host, for which alone the server has refused a new schedule; otherwise nil.
func strangers(ctx context.Context, c *client.Client, r *v1.Request, err error) error {
	refusal, ok := errors.AsType[*v1.Problem](err)
	if !ok || len(refusal.Fields) == 0 || slices.ContainsFunc(refusal.Fields, func(f v1.FieldError) bool {
		return !strings.HasPrefix(f.Field, "request.hosts[")
	}) {
		return nil
	}
	hosts := remote.Hosts{Names: r.Hosts}
	return hosts.Exist(ctx, c)
}

// sayUnmatched says what the request of a new schedule does not find now, because a name may be misspelt. An error of a
// list says nothing: the schedule exists.
func sayUnmatched(ctx context.Context, cmd *cobra.Command, c *client.Client, r *v1.Request) {
	var sel selection.Selection
	sel.Names, sel.Selector, sel.ProcessSelector = r.Hosts, r.Select, r.Labels
	unmatched := remote.UnmatchedHosts(ctx, c, sel.Names)
	var missing []string
	for _, arg := range r.Processes {
		f := client.ProcessFilter{Limit: 1}
		f.Namespace, f.Name, _ = strings.Cut(arg, "/")
		if found, err := sel.List(ctx, c, f); err == nil && len(found) == 0 {
			missing = append(missing, arg)
		}
	}
	if unmatched == nil && len(missing) > 0 {
		unmatched = remote.NoProcess(ctx, c, missing, sel.Where(), nil)
	}
	if unmatched != nil {
		term.Say(cmd, "%v\n", unmatched)
		term.Say(cmd, "the schedule exists: each run looks for processes and hosts again\n")
	}
}

// parseScheduled reads the flags of an operation, and tells all that do not belong there.
func parseScheduled(cmd *cobra.Command, op process.OpInfo, args []string) error {
	var faults []error
	for {
		err := cmd.ParseFlags(args)
		unknown, ok := errors.AsType[*pflag.NotExistError](err)
		switch {
		case ok:
			known, err := misplaced(op, unknown)
			if faults = append(faults, err); known != nil && cmd.Flags().Lookup(known.Name) == nil {
				cmd.Flags().AddFlag(known) // the next time it is passed over with its value
				continue
			}
		case err != nil:
			faults = append(faults, term.Usagef("%s: %w", op.Op, err))
		}
		return errors.Join(faults...)
	}
}

// misplaced returns the error of a flag that an operation in a schedule does not have, and the flag if drover has it
// elsewhere: it is more often one of the schedule or of all commands than misspelt.
func misplaced(op process.OpInfo, unknown *pflag.NotExistError) (known *pflag.Flag, err error) {
	flag, given := "--"+unknown.GetSpecifiedName(), unknown.GetSpecifiedName()
	if unknown.GetSpecifiedShortnames() != "" {
		flag = flag[1:]
	}
	session, schedule := &cobra.Command{}, &cobra.Command{}
	new(remote.Session).WaitingFlags(session)
	scheduleFlags(schedule.Flags(), &v1.ScheduleRequest{})
	find := func(c *cobra.Command) *pflag.Flag {
		if f := c.Flags().Lookup(given); f != nil || len(given) != 1 {
			return f
		}
		return c.Flags().ShorthandLookup(given)
	}
	if known = cmp.Or(find(session), find(schedule)); known == nil {
		if known = find(newOperate(op)); known != nil {
			return known, term.Usagef("%s is not for a schedule: a run takes only names, -l, --hosts, --process-label, "+
				"--host-timeout, --one-of and the flags of a rollout", flag)
		}
	}
	return known, term.Usagef("%s is not a flag of %s in a schedule: flags of the schedule and of drover stand before --",
		flag, op.Op)
}

// scheduleFlags adds the flags of a new schedule.
func scheduleFlags(f *pflag.FlagSet, r *v1.ScheduleRequest) {
	f.StringVar(&r.Cron, "cron", "", "timetable: five fields of crontab, or @daily and so on")
	f.StringVar(&r.TimeZone, "zone", "", "time zone of --cron, such as Europe/Berlin (default the server's)")
	f.StringVarP(&r.Message, "message", "m", "", "reason, for other people")
}

// scheduledRequest reads the command line of an operation.
func scheduledRequest(args []string) (r v1.Request, err error) {
	var op process.OpInfo
	var names []string
	for _, row := range process.Ops() {
		if row.HasCommand {
			names = append(names, string(row.Op))
			if string(row.Op) == args[0] {
				op = row
			}
		}
	}
	if op.Op == "" {
		return r, term.Usagef("%q cannot be scheduled: expected one of %s", args[0], strings.Join(names, ", "))
	}
	var a Command
	var sel selection.Selection
	cmd := &cobra.Command{Use: args[0], SilenceUsage: true}
	sel.Hosts.Flags(cmd, &a.Session, "only on these hosts")
	sel.LabelFlag(cmd)
	cmd.Flags().DurationVar(&a.hostTimeout, "host-timeout", 0, "how long each host has to accept the operation")
	if op.Argument != "" {
		cmd.Flags().StringVar(&a.scope, "scope", v1.ScopeProcess, "what gets the signal: process or tree")
	}
	if op.RollsOut {
		a.rollout.op = op
		a.rollout.flags(cmd, false)
		a.one.flags(cmd)
	}
	term.KeepFaults(cmd)
	parsed := errors.Join(parseScheduled(cmd, op, args[1:]), term.KeptFaults(cmd))
	rest := cmd.Flags().Args()
	faults := []error{parsed, term.Filled(cmd), cmd.PreRunE(cmd, rest), a.bounded()}
	if op.Argument != "" {
		rest, err = a.readSignal(rest)
		faults = append(faults, err)
	}
	if a.rollout.At != "" {
		faults = append(faults, term.Usagef("--at is not for a schedule: its runs begin at the times of --cron"))
	}
	if faults = append(faults, term.SplitIDs(rest)); len(rest) == 0 && parsed == nil {
		faults = append(faults, term.Usagef("%s: NAMESPACE/NAME is missing", args[0]))
	}
	if err := errors.Join(faults...); err != nil {
		return r, err
	}
	plan, err := a.rollout.plan()
	return v1.Request{
		Op: string(op.Op), Processes: rest, Hosts: sel.Names, Select: sel.Selector, Labels: sel.ProcessSelector,
		Signal: a.signal, Scope: a.scope,
		HostTimeout: int(a.hostTimeout / time.Second), Rollout: plan, OneOf: a.one.oneOf,
		AgainWhenLost: a.one.again,
	}, err
}
