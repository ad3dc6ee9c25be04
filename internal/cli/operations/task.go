package operations

import (
	"cmp"
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	v1 "drover/api/v1"
	"drover/client"
	"drover/internal/cli/events"
	"drover/internal/cli/remote"
	"drover/internal/cli/term"
	"drover/internal/process"
	"drover/internal/words"
)

// NewTask returns 'drover task'.
func NewTask() *cobra.Command {
	return term.Noun("task", newTaskList(), newTaskGet(), newTaskWatch(), newTaskCancel())
}

func newTaskList() *cobra.Command {
	var s remote.Session
	var f client.TaskFilter
	var hosts remote.Hosts
	since := ""
	cmd := remote.List[v1.Task]{
		Use: "list", None: "no tasks",
		ID:      func(t v1.Task) string { return t.ID },
		Columns: taskColumns(),
		Rows: func(ctx context.Context, c *client.Client, _ []string) ([]v1.Task, error) {
			f.Hosts, f.Selector = hosts.Names, hosts.Selector
			rows, err := client.Collect(c.Tasks(ctx, f))
			if err == nil && len(rows) == 0 {
				err = hosts.Unmatched(ctx, c)
			}
			return rows, err
		},
	}.Command(&s)
	flags := cmd.Flags()
	flags.StringVar(&f.State, "state", "", "only tasks in this state: running or done")
	flags.StringVar(&f.App, "app", "", "only tasks of this app")
	flags.StringVar(&f.User, "user", "", "only tasks of this user")
	flags.StringVar(&f.Op, "op", "", "only tasks of this operation, such as restart")
	flags.StringVarP(&f.Namespace, "namespace", "n", "", "only tasks with a process of this namespace, or of a pattern")
	flags.StringVar(&f.Outcome, "outcome", "", "only tasks with a failure (failed), or done without one (ok)")
	flags.StringVar(&since, "since", "", "only tasks from this time on: RFC 3339, 10:00 or an age such as 10m")
	hosts.Flags(cmd, &s, "only tasks with a target on these hosts")
	flags.IntVar(&f.Limit, "limit", 20, "list at most this number of tasks; 0 lists all")
	cmd.PreRunE = term.Chain(cmd.PreRunE, func(*cobra.Command, []string) (err error) {
		f.Since, err = term.Moment("--since", since)
		return errors.Join(events.Limited(f.Limit), err)
	})
	term.Complete(cmd, "state", "running", "done")
	term.Complete(cmd, "outcome", "ok", "failed")
	return cmd
}

func taskColumns() []term.Column[v1.Task] {
	return []term.Column[v1.Task]{
		{Head: "TASK", Cell: func(t v1.Task) string { return t.ID }},
		{Head: "STATE", Cell: func(t v1.Task) string { return words.Result(t.State, t.Counts.Failed) }, State: true},
		{Head: "OPERATION", Cell: func(t v1.Task) string { return t.Op }},
		{Head: "PROCESS", Cell: func(t v1.Task) string {
			if t.Requests > 1 {
				return t.Subject + " and " + process.Count(t.Requests-1, "other", "others")
			}
			return t.Subject
		}},
		{Head: "OK", Cell: func(t v1.Task) string { return strconv.Itoa(t.Counts.OK) }},
		{Head: "FAILED", Cell: func(t v1.Task) string { return strconv.Itoa(t.Counts.Failed) }},
		{Head: "RUNNING", Cell: func(t v1.Task) string { return strconv.Itoa(t.Counts.Pending) }},
		{Head: "AGE", Cell: func(t v1.Task) string { return term.Since(&t.CreatedAt) }},
		{Head: "BY", Cell: func(t v1.Task) string { return term.Caller(t.App, t.User) }},
		{Head: "REASON", Wide: true, Cell: func(t v1.Task) string { return t.Reason }},
		{Head: "REQUEST", Wide: true, Cell: func(t v1.Task) string { return t.RequestID }},
	}
}

func newTaskGet() *cobra.Command {
	var s remote.Session
	var failed bool
	cmd := &cobra.Command{
		Use:  "get TASK",
		Args: term.Args,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, task, err := taskNamed(cmd, &s, args[0], "status")
			if err != nil {
				return err
			}
			var f client.ResultFilter
			if failed {
				f.Outcome = "failed"
			}
			results, err := client.Collect(c.Results(cmd.Context(), task.ID, f))
			if err != nil {
				return remote.ExitOf(err)
			}
			if s.Form == term.AsTable {
				term.Say(cmd, "%s: %s by %s, %s ago, %s\n", task.ID, task.Op,
					term.Printable(term.Doer(task.App, task.User, task.Reason)),
					term.Since(&task.CreatedAt),
					words.State(words.Result(task.State, task.Counts.Failed)).In(words.English))
			}
			w := Waiter{Session: &s}
			if s.Form == term.AsTable { // all results, because the caller asked for them
				return term.PrintList(cmd, s.Output, results, resultColumns(), func(r v1.Result) string {
					return r.Namespace + "/" + r.Name
				})
			}
			return w.print(cmd, task, results)
		},
		ValidArgsFunction: completeTasks(&s),
	}
	cmd.Flags().BoolVar(&failed, "failed", false, "only failed targets")
	s.Flags(cmd, term.AsTable, term.AsJSON, term.AsYAML, term.AsName)
	return cmd
}

func newTaskWatch() *cobra.Command {
	var s remote.Session
	cmd := &cobra.Command{
		Use:  "watch TASK",
		Args: term.Args,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, task, err := taskNamed(cmd, &s, args[0], "watch")
			if err != nil {
				return err
			}
			w := Waiter{Session: &s}
			return w.Finish(cmd, c, task)
		},
		ValidArgsFunction: completeTasks(&s),
	}
	s.WaitingFlags(cmd, term.AsTable, term.AsJSON, term.AsYAML, term.AsName)
	return cmd
}

func newTaskCancel() *cobra.Command {
	var s remote.Session
	cmd := &cobra.Command{
		Use:  "cancel TASK",
		Args: term.Args,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, task, err := taskNamed(cmd, &s, args[0], "abort")
			if err != nil {
				return err
			}
			answer, err := c.Cancel(cmd.Context(), task.ID)
			if err != nil {
				return remote.ExitOf(err)
			}
			if s.Form != term.AsTable {
				return term.PrintValue(cmd.OutOrStdout(), s.Form, answer)
			}
			if answer.Cancelled+answer.Asked+answer.Begun == 0 && answer.Operation.State == "done" {
				term.Say(cmd, "%s: the task was done already: nothing is cancelled\n", task.ID)
				return nil
			}
			term.Say(cmd, "%s: %d cancelled, %d for their hosts to decide, %d go on\n", task.ID, answer.Cancelled, answer.Asked,
				answer.Begun)
			return nil
		},
		ValidArgsFunction: completeTasks(&s),
	}
	s.Flags(cmd, term.AsTable, term.AsJSON, term.AsYAML)
	return cmd
}

// recentTasks is the number of tasks to search for the beginning of an id.
const recentTasks = 1000

// taskNamed returns the client of a session, and the task that findTask finds. instead is the verb of a rollout that
// does what the caller wants: the id of a rollout begins the ids of the tasks of its batches, but means all of them.
func taskNamed(cmd *cobra.Command, s *remote.Session, word, instead string) (*client.Client, v1.Task, error) {
	c, err := s.Client(cmd)
	if err != nil {
		return nil, v1.Task{}, err
	}
	if rest, of := strings.CutPrefix(word, "ro-"); of && !strings.Contains(rest, "-") {
		r, err := onRollout(cmd.Context(), c, word, func(id string) (v1.Rollout, error) {
			return c.Rollout(cmd.Context(), id)
		})
		switch {
		case err != nil:
			return nil, v1.Task{}, err
		case instead == "abort" && !r.Active():
			return nil, v1.Task{}, term.Usagef("%s is a rollout, and %s already: nothing is cancelled", r.ID,
				r.State)
		}
		return nil, v1.Task{}, term.Usagef("%s is a rollout: use %s; the task of its first batch is %s-0", r.ID,
			s.Again("rollout %s %s", instead, r.ID), r.ID)
	}
	task, err := findTask(cmd.Context(), c, word)
	return c, task, err
}

// checkTime is how long an undo waits for the list of what came after a rollout.
const checkTime = 10 * time.Second

// gseTask begins the ids of the tasks that GSE's API makes; the date follows.
const gseTask = "GSETASK:S:"

// findTask returns the task with that id, or the only recent task whose id begins with it. The beginning of all ids of
// GSE may be missing.
func findTask(ctx context.Context, c *client.Client, word string) (v1.Task, error) {
	if word != "" && word[0] >= '0' && word[0] <= '9' {
		word = gseTask + word
	}
	task, err := remote.ByPrefix(word, func(id string) (v1.Task, error) { return c.Task(ctx, id, 0) },
		c.Tasks(ctx, client.TaskFilter{Limit: recentTasks}), func(t v1.Task) string { return t.ID })
	if remote.NotFound(err) {
		return task, term.NoSuchf("there is no task %q", word)
	}
	return task, remote.ExitOf(err)
}

// onRollout makes a call about the rollout with an id, or about the only recent rollout whose id begins so.
func onRollout(ctx context.Context, c *client.Client, begun string,
	call func(id string) (v1.Rollout, error),
) (v1.Rollout, error) {
	r, err := remote.ByPrefix(begun, call, c.Rollouts(ctx, client.RolloutFilter{Limit: recentTasks}),
		func(r v1.Rollout) string { return r.ID })
	return r, remote.ExitOf(err)
}

// toUndo returns the named rollout, or without a name the last one.
func toUndo(cmd *cobra.Command, s *remote.Session, args []string) (*client.Client, v1.Rollout, error) {
	if len(args) > 0 {
		return rolloutNamed(cmd, s, args[0])
	}
	c, err := s.Client(cmd)
	if err != nil {
		return nil, v1.Rollout{}, err
	}
	recent, err := client.Collect(c.Rollouts(cmd.Context(), client.RolloutFilter{Limit: recentTasks}))
	if err != nil {
		return nil, v1.Rollout{}, remote.ExitOf(err)
	}
	r, err := lastToUndo(recent)
	if err == nil {
		err = isLastApply(cmd, c, &r)
	}
	if err == nil {
		term.Say(cmd, "the last apply is %s over %s, by %s at %s\n", r.ID,
			term.Printable(processesOf(r.Processes)), term.Printable(term.Caller(r.App, r.User)),
			term.Stamp(&r.CreatedAt))
	}
	return c, r, err
}

// isLastApply fails if another apply followed a rollout, and made no rollout. An undo may be urgent: without an answer
// in checkTime it only says so.
func isLastApply(cmd *cobra.Command, c *client.Client, r *v1.Rollout) error {
	ctx, cancel := context.WithTimeout(cmd.Context(), checkTime)
	defer cancel()
	since, err := c.Changes(ctx, client.ChangesFilter{From: r.CreatedAt})
	if err != nil {
		term.Say(cmd, "cannot see whether a later apply made no rollout: %v\n", err)
		return nil
	}
	for _, v := range since.Revisions {
		if v.Through == v1.ThroughApply && v.At.After(r.CreatedAt) && !strings.HasPrefix(v.Operation, "ro-") {
			if of, err := c.Task(ctx, v.Operation, 0); err == nil && of.RequestID == r.RequestID {
				continue // another part of the same file
			}
			return term.Usagef("the last apply, %s of %s, made no rollout: apply the former file, or name a rollout such as %s",
				v.Operation, term.Printable(v.Namespace), r.ID)
		}
	}
	return nil
}

// lastToUndo returns the rollout of the last apply among rollouts, newest first. It is an error if that apply has made
// several, or if nothing can undo it: the error then names what can be undone.
func lastToUndo(recent []v1.Rollout) (last v1.Rollout, err error) {
	var open []v1.Rollout
	undone := map[string]bool{}
	refused, undo := "", ""
	for _, r := range recent {
		switch {
		case r.Op != v1.OpApply:
		case r.Undoes != "":
			undone[r.Undoes] = true
			undo = cmp.Or(undo, r.ID)
		case undone[r.ID]:
		case r.State == v1.RolloutRunning || r.State == v1.RolloutScheduled || reachedBy(&r) == 0:
			if len(open) == 0 && refused == "" {
				refused = r.ID
			}
		default:
			open = append(open, r)
		}
	}
	var names []string
	for _, r := range open[:min(len(open), candidatesShown)] {
		names = append(names, r.ID+" ("+term.Printable(processesOf(r.Processes))+")")
	}
	switch {
	case len(open) == 0 && undo != "" && refused == "":
		return last, term.Usagef("the last rollout is an undo: expected its id, %s, to undo it", undo)
	case len(open) == 0:
		return last, term.Usagef("no recent rollout can be undone: expected the id of a rollout")
	case refused != "":
		return last, term.Usagef("nothing undoes the last rollout, %s, now: expected one of %s", refused,
			strings.Join(names, ", "))
	case len(open) > 1 && open[1].RequestID == open[0].RequestID:
		return last, term.Usagef("the last apply has made several rollouts: expected one of %s", strings.Join(names, ", "))
	}
	return open[0], nil
}

// candidatesShown is how many rollouts an error names.
const candidatesShown = 5

// completeTasks completes the id of a task.
func completeTasks(s *remote.Session) remote.Completer {
	return remote.First(remote.Completing(s, func(ctx context.Context, c *client.Client, _ string) []string {
		return remote.Words(c.Tasks(ctx, client.TaskFilter{Limit: 50}), func(o v1.Task) string {
			return o.ID + "\t" + o.Op + " " + term.Printable(o.Subject)
		})
	}))
}
