package webui

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/goccy/go-yaml"

	v1 "drover/api/v1"
	"drover/client"
	"drover/internal/process"
	"drover/internal/words"
)

// The lengths of lists.
const (
	// perPage is the number of rows of a page, few that of a list beside others.
	perPage, few = 50, 10
	// maxNamed is the largest number of rows that a form names, and mostFailed that of results that a page groups.
	maxNamed, mostFailed = 1000, 2000
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

func fields(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(", \t\r\n;", r) })
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

// refusal is why the server has rejected a call, in the language of the page.
func (v *view) refusal(e *v1.Problem) string { return words.Message(e.Error(), v.lang) }

// badFilter shows a page whose filter the console or the API has rejected, with the reason. Other errors it returns.
func (v *view) badFilter(err error, page string, body map[string]any) error {
	known, ok := errors.AsType[*v1.Problem](err)
	if !ok || known.Status != http.StatusBadRequest && known.Status != http.StatusUnprocessableEntity {
		return err
	}
	body["Problem"] = v.refusal(known)
	v.render(known.Status, page, body)
	return nil
}

// turn adds the first and the next page of a list, which is at a path, to what a page shows. next is the cursor of the
// next page; empty on the last one.
func turn(body map[string]any, at string, q url.Values, next string) {
	q = maps.Clone(q)
	if q.Has("cursor") {
		q.Del("cursor")
		body["First"] = at + "?" + q.Encode()
	}
	if next != "" {
		q.Set("cursor", next)
		body["Next"] = at + "?" + q.Encode()
	}
}

// instance shows one process on one host.
func (v *view) instance(ctx context.Context) error {
	namespace, name, host := v.r.PathValue("namespace"), v.r.PathValue("name"), v.r.PathValue("host")
	last := cmp.Or(v.r.URL.Query().Get("last"), v1.UsageHour)
	if !slices.ContainsFunc(windows(), func(w window) bool { return w.Last == last }) {
		return badParameter("last", last, "15m, 1h or 24h")
	}
	rows, _, err := some(v.client.Processes(ctx, client.ProcessFilter{
		Namespace: literal(namespace), Name: literal(name), Hosts: []string{literal(host)}, Spec: true,
	}), perPage)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(rows, func(p v1.Process) bool {
		return p.Namespace == namespace && p.Name == name && (p.Host.ID == host || address(p.Host) == host)
	})
	if i < 0 {
		return &v1.Problem{Status: http.StatusNotFound}
	}
	p := rows[i]
	events, _, err := some(v.client.Events(ctx, client.EventFilter{
		Namespaces: []string{literal(namespace)}, Name: literal(name), Hosts: []string{literal(p.Host.ID)},
		Limit: perPage,
	}), perPage)
	if err != nil {
		return err
	}
	var used usage
	var asked sync.WaitGroup
	asked.Go(func() { used = v.usageOf(ctx, &p, last) })
	log := v.logOf(ctx, &p)
	asked.Wait()
	body := map[string]any{
		"Process": p, "Events": events, "Log": log, "Usage": used, "Spec": specText(p.Spec),
		"Ops":       v.offer(namespace, p.Host.ID),
		"Dashboard": v.dashboard(namespace, name, p.Host.ID),
		"AllEvents": eventsPage(namespace, name, p.Host.ID),
		"Command":   "drover why " + quote(namespace+"/"+name) + " --hosts " + quote(p.Host.ID),
	}
	if err := v.detail(ctx, &p, events, body); err != nil {
		return err
	}
	v.render(http.StatusOK, "instance", body)
	return nil
}

// address is the address of a host, as CLOUD:IP.
func address(h v1.Host) string { return fmt.Sprintf("%d:%s", h.Cloud, h.IP) }

// literal is a pattern that matches a text. A text with signs of patterns is not alone in matching it.
func literal(text string) string {
	return strings.ReplaceAll(text, "*", "?")
}

// hosts lists hosts.
func (v *view) hosts(ctx context.Context) error {
	q := v.r.URL.Query()
	body := map[string]any{"Filter": q, "Query": v.r.URL.RawQuery}
	err := v.checkParameters([]string{"hosts", "state", "selector", "area", "build", "proxy", "policy", "q", "cursor"})
	f := client.HostFilter{
		Hosts: fields(q.Get("hosts")), State: q.Get("state"), Selector: q.Get("selector"), Area: q.Get("area"),
		Build: q.Get("build"), Proxy: q.Get("proxy"), Policy: q.Get("policy"), Search: q.Get("q"),
		Limit: perPage * 4,
	}
	var page client.Page[v1.JoinedHost]
	if err == nil {
		page, err = v.client.HostPage(ctx, f, q.Get("cursor"))
	}
	if err == nil {
		body["States"], body["Builds"], err = v.hostCounts(ctx, q, f)
	}
	if err == nil {
		body["Rows"], err = v.hostRows(ctx, page.Items)
	}
	if err != nil {
		return v.badFilter(err, "hosts", body)
	}
	turn(body, path("hosts"), q, page.NextCursor)
	v.render(http.StatusOK, "hosts", body)
	return nil
}

// tasks lists operations.
func (v *view) tasks(ctx context.Context) error {
	q := v.r.URL.Query()
	body := map[string]any{"Filter": q, "Query": v.r.URL.RawQuery, "Ops": ops()}
	err := v.checkParameters([]string{
		"state", "op", "user", "app", "namespace", "hosts", "selector", "outcome", "since", "cursor",
	})
	f := client.TaskFilter{
		State: q.Get("state"), Op: q.Get("op"), User: q.Get("user"), App: q.Get("app"), Namespace: q.Get("namespace"),
		Outcome: q.Get("outcome"), Hosts: fields(q.Get("hosts")), Selector: q.Get("selector"), Limit: perPage,
	}
	if err == nil {
		f.Since, err = moments(q, "since", v.Now())
	}
	var page client.Page[v1.Task]
	if err == nil {
		page, err = v.client.TaskPage(ctx, f, q.Get("cursor"))
	}
	if err != nil {
		return v.badFilter(err, "tasks", body)
	}
	body["Rows"] = page.Items
	turn(body, path("tasks"), q, page.NextCursor)
	v.render(http.StatusOK, "tasks", body)
	return nil
}

// task shows an operation and its results, the failed ones first.
func (v *view) task(ctx context.Context) error {
	q := v.r.URL.Query()
	o, err := v.client.Task(ctx, v.r.PathValue("id"), 0)
	if err != nil {
		return err
	}
	failed, more, err := some(v.client.Results(ctx, o.ID, client.ResultFilter{
		Outcome: "failed", Limit: mostFailed + 1,
	}), mostFailed)
	if err != nil {
		return err
	}
	outcome := q.Get("outcome")
	page, err := v.client.ResultPage(ctx, o.ID, client.ResultFilter{
		Outcome: outcome, Limit: perPage * 4,
	}, q.Get("cursor"))
	if err != nil {
		return err
	}
	body := map[string]any{
		"Task": &o, "Done": o.Counts.Targets - o.Counts.Pending, "Groups": byMessage(failed), "Rows": page.Items,
		"Outcome": outcome, "Outcomes": outcomesOf(&o), "File": ofOutcome(path("tasks", o.ID, "results.csv"), outcome),
		"Command": "drover task watch " + quote(o.ID), "LeftOut": leftOut(q), "Mine": v.who.Admin || o.App == v.who.App,
	}
	if more {
		body["Grouped"] = mostFailed
	}
	again(body, &o, failed)
	turn(body, path("tasks", o.ID), q, page.NextCursor)
	v.render(http.StatusOK, "task", body)
	return nil
}

// outcomesOf are the outcomes of an operation, with the page of each and its number of results. The first is all.
func outcomesOf(o *v1.Task) []facet {
	list := []facet{
		{N: o.Counts.Targets},
		{ID: v1.OutcomeOK, N: o.Counts.OK},
		{ID: v1.OutcomeFailed, N: o.Counts.Failed},
		{ID: v1.OutcomePending, N: o.Counts.Pending},
	}
	for i := range list {
		list[i].URL = ofOutcome(path("tasks", o.ID), list[i].ID)
	}
	return list
}

// ofOutcome is the address of a page or file of results of one outcome; empty for all.
func ofOutcome(page, outcome string) string {
	if outcome == "" {
		return page
	}
	return page + "?outcome=" + url.QueryEscape(outcome)
}

// resultsFile sends the results of an operation as a file for a spreadsheet, in the order of the request.
func (v *view) resultsFile(ctx context.Context) error {
	id := v.r.PathValue("id")
	return sendCSV(v, "results.csv", []string{"namespace", "name", "host", "operation", "outcome", "message"},
		v.client.Results(ctx, id, client.ResultFilter{Outcome: v.r.URL.Query().Get("outcome")}),
		func(r v1.Result) []string {
			return []string{r.Namespace, r.Name, r.Host, r.Op, r.Outcome, r.Message}
		})
}

// hostsOfTask sends the hosts of an operation as text, each host once on a line of its own, so that they can be pasted
// into other programs.
func (v *view) hostsOfTask(ctx context.Context) error {
	var text strings.Builder
	told := map[string]bool{}
	filter := client.ResultFilter{Outcome: v.r.URL.Query().Get("outcome")}
	for r, err := range v.client.Results(ctx, v.r.PathValue("id"), filter) {
		if err != nil {
			return err
		}
		if !told[r.Host] {
			told[r.Host] = true
			text.WriteString(visible(r.Host) + "\n")
		}
	}
	v.w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = io.WriteString(v.w, text.String()) // the browser has hung up
	return nil
}

// again adds to the page of a task the operation for the targets that have failed, if one form can name them.
func again(body map[string]any, o *v1.Task, failed []v1.Result) {
	i := slices.IndexFunc(ops(), func(a act) bool { return a.ID == o.Op })
	if i < 0 || !o.Done() || len(failed) == 0 || len(failed) > maxNamed {
		return
	}
	targets := make([]target, len(failed))
	for n, r := range failed {
		if r.Op != o.Op { // the task has several operations
			return
		}
		targets[n] = target{r.Namespace, r.Name, r.Host}
	}
	body["Again"], body["Failed"] = ops()[i], targets
}

// leftOut returns how many processes came to match the filter of an operation before it was confirmed.
func leftOut(q url.Values) int {
	n, _ := strconv.Atoi(q.Get("left_out")) // without the parameter there are none
	return max(n, 0)
}

// group is the results that failed with one message.
type group struct {
	Message, Outcome string
	Count            int
	Hosts            []string
}

// byMessage groups results, the largest group first.
func byMessage(results []v1.Result) (groups []group) {
	at := map[[2]string]int{}
	for _, r := range results {
		message := alike(&r)
		key := [2]string{r.Outcome, message}
		i, ok := at[key]
		if !ok {
			i = len(groups)
			at[key] = i
			groups = append(groups, group{Message: r.Message, Outcome: r.Outcome})
		} else if groups[i].Message != r.Message {
			groups[i].Message = message
		}
		groups[i].Count++
		if len(groups[i].Hosts) < few {
			groups[i].Hosts = append(groups[i].Hosts, r.Host)
		}
	}
	slices.SortStableFunc(groups, func(a, b group) int { return b.Count - a.Count })
	return groups
}

// alike is the message of a result without the pids and times that differ from host to host, and without the number of
// a copy. Messages that name different processes differ.
func alike(r *v1.Result) string {
	name, number := process.CutCopy(r.Name)
	message := r.Message
	if number > 0 {
		message = strings.ReplaceAll(message, r.Name, name+"@…")
	}
	return ownPart.ReplaceAllString(message, "$1…")
}

var ownPart = regexp.MustCompile(`\b(pid |at )(\d{4}-\d\d-\d\dT[0-9:.]+Z|\d+)`)

// rollouts lists rollouts.
func (v *view) rollouts(ctx context.Context) error {
	q := v.r.URL.Query()
	body := map[string]any{
		"Filter": q, "Query": v.r.URL.RawQuery,
		"States": []string{"active", "scheduled", "running", "held", "paused", "done", "aborted"},
	}
	err := v.checkParameters([]string{"state", "namespace", "hosts", "selector", "cursor"})
	var page client.Page[v1.Rollout]
	if err == nil {
		page, err = v.client.RolloutPage(ctx, client.RolloutFilter{
			State: q.Get("state"), Namespace: q.Get("namespace"),
			Hosts: fields(q.Get("hosts")), Selector: q.Get("selector"), Limit: perPage,
		}, q.Get("cursor"))
	}
	if err != nil {
		return v.badFilter(err, "rollouts", body)
	}
	body["Rows"] = page.Items
	turn(body, path("rollouts"), q, page.NextCursor)
	v.render(http.StatusOK, "rollouts", body)
	return nil
}

// lane is a batch of a rollout.
type lane struct {
	Batch int
	Hosts []v1.RolloutHost
}

// StateFacets is the number of hosts in each state, of a lane that is too long to show each host; empty for a short
// one.
func (l lane) StateFacets() []facet {
	if len(l.Hosts) <= groupAbove {
		return nil
	}
	counts := map[string]int{}
	for _, h := range l.Hosts {
		counts[h.State]++
	}
	return facetsOf(url.Values{}, "state", counts)
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
		"Rollout": r, "Lanes": lanes, "Acts": v.actsOf(&r), "Command": "drover rollout watch " + quote(r.ID),
		"LeftOut": leftOut(v.r.URL.Query()),
	})
	return nil
}

// events lists events, the newest first.
func (v *view) events(ctx context.Context) error {
	q := v.r.URL.Query()
	body := map[string]any{"Filter": q, "Query": v.r.URL.RawQuery, "Kinds": words.IDs("kind")}
	follow := q.Get("follow") != ""
	f := eventFilter(q, perPage*4)
	if follow { // the lines come by themselves: this only checks the filter
		f.Limit = 1
	}
	err := v.checkParameters([]string{
		"namespace", "name", "hosts", "selector", "kind", "since", "until", "follow", "cursor",
	})
	if err == nil {
		f.Since, err = moments(q, "since", v.Now())
	}
	if err == nil {
		f.Until, err = moments(q, "until", v.Now())
	}
	var page client.Page[v1.Event]
	if err == nil {
		page, err = v.client.EventPage(ctx, f, q.Get("cursor"))
	}
	if err != nil {
		return v.badFilter(err, "events", body)
	}
	body["Command"] = eventsCommand(q)
	if follow {
		for _, past := range []string{"since", "until", "follow", "cursor"} {
			q.Del(past)
		}
		body["Follow"], body["Past"] = path("events", "lines")+"?"+q.Encode(), path("events")+"?"+q.Encode()
	} else {
		body["Rows"] = page.Items
		turn(body, path("events"), q, page.NextCursor)
	}
	v.render(http.StatusOK, "events", body)
	return nil
}

// eventFilter reads what selects events, without times.
func eventFilter(q url.Values, limit int) client.EventFilter {
	return client.EventFilter{
		Namespaces: fields(q.Get("namespace")), Name: q.Get("name"), Hosts: fields(q.Get("hosts")),
		Selector: q.Get("selector"), Kinds: fields(q.Get("kind")), Limit: limit,
	}
}

// eventsCommand is the command that lists the same events; empty if there is none.
func eventsCommand(q url.Values) string {
	if len(fields(q.Get("namespace"))) > 1 { // the command takes one
		return ""
	}
	var command strings.Builder
	command.WriteString("drover events")
	if namespace, name := q.Get("namespace"), q.Get("name"); namespace+name != "" {
		command.WriteString(" " + quote(cmp.Or(namespace, "*")+"/"+cmp.Or(name, "*")))
	}
	flags := []string{"hosts", "selector", "kind", "since", "until"}
	if q.Get("follow") != "" {
		command.WriteString(" --follow")
		flags = flags[:3]
	}
	for _, flag := range flags {
		if value := q.Get(flag); value != "" {
			command.WriteString(" --" + flag + " " + quote(value))
		}
	}
	return command.String()
}

// eventsPage is the page with all events of a process, of a host, or of a process on a host.
func eventsPage(namespace, name, host string) string {
	q := url.Values{}
	for key, value := range map[string]string{"namespace": namespace, "name": name, "hosts": host} {
		if value != "" {
			q.Set(key, literal(value))
		}
	}
	return path("events") + "?" + q.Encode()
}

// act is an action on a rollout.
type act struct {
	ID   string
	Word words.Text
}

// actsOf are the actions that the state of a rollout allows. A person can only approve the rollout of another app,
// unless the person is an administrator.
func (v *view) actsOf(r *v1.Rollout) (list []act) {
	if r.State == "held" && r.User != v.who.User { // another person must approve
		list = append(list, act{"approve", words.Act.Approve})
	}
	if !v.who.Admin && r.App != v.who.App {
		return list
	}
	switch r.State {
	case "running":
		list = append(list, act{"pause", words.Act.Pause})
	case "paused":
		list = append(list, act{"resume", words.Act.Resume})
	}
	rests := !r.Active() || r.State == v1.RolloutPaused
	if rests && r.Counts.Failed > 0 {
		list = append(list, act{"retry", words.Act.RetryFailed})
	}
	if rests && r.Op == v1.OpApply && r.Undoes == "" {
		list = append(list, act{"undo", words.Act.Undo})
	}
	if r.Active() {
		list = append(list, act{"abort", words.Act.Abort})
	}
	return list
}

// probed returns the target of the health check of a process, in the form of a process file; empty without a check.
func probed(s *v1.Spec) string {
	if s == nil || s.Health == nil {
		return ""
	}
	h := s.Health
	switch {
	case h.Exec != "":
		return "exec: " + h.Exec
	case h.HTTP != "":
		return "http: " + h.HTTP
	case h.TCP != "":
		return "tcp: " + h.TCP
	case h.Watchdog:
		return "watchdog: true"
	}
	return ""
}

// specText is a spec as people write it.
func specText(s *v1.Spec) string {
	if s == nil {
		return ""
	}
	text, err := yaml.MarshalWithOptions(s, yaml.UseJSONMarshaler())
	if err != nil {
		return err.Error()
	}
	return string(text)
}
