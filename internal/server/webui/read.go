package webui

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"

	"drover/client"
	"drover/internal/words"
)

// The lengths of lists.
const (
	// perPage is the number of rows of a page, few that of a list beside others.
	perPage, few = 50, 10
	// logLines is the number of the last lines of a log.
	logLines = 200
	// maxTargets is the largest number of processes of one operation in the console.
	maxTargets = 2000
	// typeAbove is the largest number of processes that need no typed number.
	typeAbove = 20
)

// some returns the first rows of a list, and whether there are more.
func some[T any](list iter.Seq2[T, error], n int) (rows []T, more bool, err error) {
	for row, err := range list {
		if err != nil {
			return nil, false, err
		}
		if len(rows) == n {
			return rows, true, nil
		}
		rows = append(rows, row)
	}
	return rows, false, nil
}

// overview shows what is wrong, what goes on, and what happened last.
func (v *view) overview(ctx context.Context) error {
	counts, err := v.client.CountProcesses(ctx, client.ProcessFilter{})
	if err != nil {
		return err
	}
	why, err := v.client.Why(ctx, client.WhyFilter{Limit: 200})
	if err != nil {
		return err
	}
	running, _, err := some(v.client.Operations(ctx, client.OperationFilter{State: "running", Limit: few}), few)
	if err != nil {
		return err
	}
	rollouts, _, err := some(v.client.Rollouts(ctx, client.RolloutFilter{Limit: few}), few)
	if err != nil {
		return err
	}
	rollouts = slices.DeleteFunc(rollouts, func(r client.Rollout) bool { return !r.Active() })
	events, _, err := some(v.client.Events(ctx, client.EventFilter{Limit: few}), few)
	if err != nil {
		return err
	}
	states := make([]stateCount, 0, len(counts.States))
	for state, n := range counts.States {
		states = append(states, stateCount{state, n})
	}
	slices.SortFunc(states, func(a, b stateCount) int { return cmp.Or(b.N-a.N, cmp.Compare(a.State, b.State)) })
	v.render(http.StatusOK, "overview", map[string]any{
		"Counts": counts, "States": states, "Why": why, "Operations": running, "Rollouts": rollouts, "Events": events,
	})
	return nil
}

// stateCount is a tile of the overview.
type stateCount struct {
	State string
	N     int
}

// processFilter reads the filter of a list of processes. The names are those of the flags of drover ps.
func processFilter(q url.Values) client.ProcessFilter {
	return client.ProcessFilter{
		Namespace: q.Get("namespace"), Name: q.Get("name"), Hosts: fields(q.Get("hosts")),
		States:   fields(q.Get("state")),
		Selector: q.Get("selector"), ProcessSelector: q.Get("process-label"), Version: q.Get("process-version"),
	}
}

func fields(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(", \t\r\n;", r) })
}

// psCommand is the command that lists the same processes.
func psCommand(q url.Values) string {
	var command strings.Builder
	command.WriteString("drover ps")
	for _, flag := range []string{
		"namespace", "name", "hosts", "state", "selector", "process-label", "process-version",
	} {
		if value := q.Get(flag); value != "" {
			command.WriteString(" --" + flag + " " + quote(value))
		}
	}
	return command.String()
}

// quote quotes a word for a shell.
func quote(text string) string {
	if text != "" && !strings.ContainsFunc(text, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') &&
			!strings.ContainsRune("-_./:@%+", r)
	}) {
		return text
	}
	return "'" + strings.ReplaceAll(visible(text), "'", `'\''`) + "'"
}

// processes lists processes on their hosts.
func (v *view) processes(ctx context.Context) error {
	q := v.r.URL.Query()
	f := processFilter(q)
	f.Limit = maxTargets + 1
	rows, _, err := some(v.client.Processes(ctx, f), perPage)
	if err != nil {
		return v.badFilter(err, "processes", map[string]any{"Filter": q})
	}
	counts, err := v.client.CountProcesses(ctx, f)
	if err != nil {
		return err
	}
	total := counts.Total
	if len(f.States) > 0 {
		total = 0
		for _, s := range f.States {
			total += counts.States[s]
		}
	}
	v.render(http.StatusOK, "processes", map[string]any{
		"Filter": q, "Rows": rows, "Total": total, "Command": psCommand(q), "Query": v.r.URL.RawQuery,
	})
	return nil
}

// badFilter shows a page whose filter the server has rejected, with the reason. Other errors it returns.
func (v *view) badFilter(err error, page string, body map[string]any) error {
	known, ok := errors.AsType[*client.Error](err)
	if !ok || known.Status != http.StatusBadRequest {
		return err
	}
	body["Problem"] = known.Error()
	v.render(http.StatusBadRequest, page, body)
	return nil
}

// process shows one process on all its hosts.
func (v *view) process(ctx context.Context) error {
	namespace, name := v.r.PathValue("namespace"), v.r.PathValue("name")
	rows, err := v.client.Process(ctx, namespace, name)
	if err != nil {
		return err
	}
	events, _, err := some(v.client.Events(ctx, client.EventFilter{
		Namespaces: []string{literal(namespace)}, Name: literal(name), Limit: perPage,
	}), perPage)
	if err != nil {
		return err
	}
	shown := rows[:min(len(rows), perPage*4)]
	v.render(http.StatusOK, "process", map[string]any{
		"Namespace": namespace, "Name": name, "Rows": shown, "Total": len(rows), "Events": events,
		"Command": "drover status " + quote(namespace+"/"+name),
	})
	return nil
}

// instance shows one process on one host.
func (v *view) instance(ctx context.Context) error {
	namespace, name, host := v.r.PathValue("ns"), v.r.PathValue("name"), v.r.PathValue("host")
	rows, _, err := some(v.client.Processes(ctx, client.ProcessFilter{
		Namespace: literal(namespace), Name: literal(name), Hosts: []string{literal(host)}, Spec: true,
	}), perPage)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(rows, func(p client.Process) bool {
		return p.Namespace == namespace && p.Name == name && (p.Host.ID == host || address(p.Host) == host)
	})
	if i < 0 {
		return &client.Error{Status: http.StatusNotFound}
	}
	p := rows[i]
	events, _, err := some(v.client.Events(ctx, client.EventFilter{
		Namespaces: []string{literal(namespace)}, Name: literal(name), Hosts: []string{literal(p.Host.ID)},
		Limit: perPage,
	}), perPage)
	if err != nil {
		return err
	}
	lines, problem := v.log(ctx, &p)
	v.render(http.StatusOK, "instance", map[string]any{
		"Process": p, "Events": events, "Lines": lines, "LogProblem": problem, "Spec": specText(p.Spec),
		"Command": "drover why " + quote(namespace+"/"+name) + " --hosts " + quote(p.Host.ID),
	})
	return nil
}

// address is the address of a host, as CLOUD:IP.
func address(h client.Host) string { return fmt.Sprintf("%d:%s", h.Cloud, h.IP) }

// literal is a pattern that matches a text. A text with signs of patterns is not alone in matching it.
func literal(text string) string {
	return strings.ReplaceAll(text, "*", "?")
}

// log reads the end of the log of a process. A log that cannot be read is no fault of the page: problem says why.
func (v *view) log(ctx context.Context, p *client.Process) (lines []client.LogLine, problem string) {
	lines, _, err := some(v.client.Logs(ctx, p.Namespace, p.Name, client.LogFilter{
		Hosts: []string{p.Host.ID}, Tail: logLines,
	}), logLines)
	if err != nil {
		return nil, err.Error()
	}
	return lines, ""
}

// hosts lists hosts.
func (v *view) hosts(ctx context.Context) error {
	q := v.r.URL.Query()
	rows, more, err := some(v.client.Agents(ctx, client.AgentFilter{
		Hosts: fields(q.Get("hosts")), State: q.Get("state"), Selector: q.Get("selector"), Limit: perPage*4 + 1,
	}), perPage*4)
	if err != nil {
		return v.badFilter(err, "hosts", map[string]any{"Filter": q})
	}
	v.render(http.StatusOK, "hosts", map[string]any{"Filter": q, "Rows": rows, "More": more})
	return nil
}

// tasks lists operations.
func (v *view) tasks(ctx context.Context) error {
	q := v.r.URL.Query()
	rows, more, err := some(v.client.Operations(ctx, client.OperationFilter{
		State: q.Get("state"), Limit: perPage + 1,
	}), perPage)
	if err != nil {
		return v.badFilter(err, "tasks", map[string]any{"Filter": q})
	}
	v.render(http.StatusOK, "tasks", map[string]any{"Filter": q, "Rows": rows, "More": more})
	return nil
}

// task shows an operation and its results, the failed ones first.
func (v *view) task(ctx context.Context) error {
	o, err := v.client.Operation(ctx, v.r.PathValue("id"), 0)
	if err != nil {
		return err
	}
	failed, _, err := some(v.client.Results(ctx, o.ID, client.ResultFilter{
		Outcome: "failed", Limit: maxTargets,
	}), maxTargets)
	if err != nil {
		return err
	}
	rows, more, err := some(v.client.Results(ctx, o.ID, client.ResultFilter{Limit: perPage*4 + 1}), perPage*4)
	if err != nil {
		return err
	}
	v.render(http.StatusOK, "task", map[string]any{
		"Task": &o, "Done": o.Counts.Targets - o.Counts.Pending, "Groups": byMessage(failed), "Rows": rows,
		"More": more, "Command": "drover task watch " + quote(o.ID),
	})
	return nil
}

// group is the results that failed with one message.
type group struct {
	Message, Outcome string
	Count            int
	Hosts            []string
}

// byMessage groups results, the largest group first.
func byMessage(results []client.Result) (groups []group) {
	at := map[[2]string]int{}
	for _, r := range results {
		key := [2]string{r.Outcome, r.Message}
		i, ok := at[key]
		if !ok {
			i = len(groups)
			at[key] = i
			groups = append(groups, group{Message: r.Message, Outcome: r.Outcome})
		}
		groups[i].Count++
		if len(groups[i].Hosts) < few {
			groups[i].Hosts = append(groups[i].Hosts, r.Host)
		}
	}
	slices.SortStableFunc(groups, func(a, b group) int { return b.Count - a.Count })
	return groups
}

// rollouts lists rollouts.
func (v *view) rollouts(ctx context.Context) error {
	rows, _, err := some(v.client.Rollouts(ctx, client.RolloutFilter{Limit: perPage}), perPage)
	if err != nil {
		return err
	}
	v.render(http.StatusOK, "rollouts", map[string]any{"Rows": rows})
	return nil
}

// lane is a batch of a rollout.
type lane struct {
	Batch int
	Hosts []client.RolloutHost
}

// rollout shows a rollout, a lane for each batch.
func (v *view) rollout(ctx context.Context) error {
	r, err := v.client.Rollout(ctx, v.r.PathValue("id"))
	if err != nil {
		return err
	}
	var lanes []lane
	for _, h := range r.Hosts {
		if n := len(lanes); n == 0 || lanes[n-1].Batch != h.Batch {
			lanes = append(lanes, lane{Batch: h.Batch})
		}
		last := &lanes[len(lanes)-1]
		last.Hosts = append(last.Hosts, h)
	}
	v.render(http.StatusOK, "rollout", map[string]any{
		"Rollout": r, "Lanes": lanes, "Acts": actsOf(&r), "Command": "drover rollout watch " + quote(r.ID),
	})
	return nil
}

// events lists events, the newest first.
func (v *view) events(ctx context.Context) error {
	q := v.r.URL.Query()
	rows, more, err := some(v.client.Events(ctx, client.EventFilter{
		Namespaces: fields(q.Get("namespace")), Name: q.Get("name"), Hosts: fields(q.Get("hosts")),
		Kinds: fields(q.Get("kind")),
		Limit: perPage*4 + 1,
	}), perPage*4)
	if err != nil {
		return v.badFilter(err, "events", map[string]any{"Filter": q})
	}
	v.render(http.StatusOK, "events", map[string]any{"Filter": q, "Rows": rows, "More": more})
	return nil
}

// act is an action on a rollout.
type act struct {
	ID   string
	Word words.Text
}

// actsOf are the actions that the state of a rollout allows.
func actsOf(r *client.Rollout) (list []act) {
	switch r.State {
	case "running":
		list = append(list, act{"pause", words.Act.Pause})
	case "held":
		list = append(list, act{"approve", words.Act.Approve})
	case "paused":
		list = append(list, act{"resume", words.Act.Resume})
	}
	if r.Active() {
		return append(list, act{"abort", words.Act.Abort})
	}
	if r.Counts.Failed > 0 {
		list = append(list, act{"retry", words.Act.Retry})
	}
	if r.Op == "apply" {
		list = append(list, act{"undo", words.Act.Undo})
	}
	return list
}

// specText is a spec as people write it.
func specText(s *client.Spec) string {
	if s == nil {
		return ""
	}
	text, err := yaml.MarshalWithOptions(s, yaml.UseJSONMarshaler())
	if err != nil {
		return err.Error()
	}
	return string(text)
}
