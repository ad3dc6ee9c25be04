package webui

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	v1 "drover/api/v1"
	"drover/client"
	"drover/internal/server/access"
	"drover/internal/server/audit"
	"drover/internal/server/gate"
	"drover/internal/server/store"
	"drover/internal/spec"
	"drover/internal/words"
)

// ops are the operations of the console.
func ops() []act {
	return []act{
		{"restart", words.Act.Restart},
		{"start", words.Act.Start},
		{"stop", words.Act.Stop},
		{"reload", words.Act.Reload},
		{"retry", words.Act.Retry},
		{"host", words.Act.Host},
		{"unhost", words.Act.Unhost},
		{"kill", words.Act.Kill},
	}
}

// offer is the operations as a page offers them.
type offer struct {
	Ops []offered
	// Missing is the right that has all operations that are off; empty if none is.
	Missing string
}

// offered is one operation. Off tells that the person has no right to it.
type offered struct {
	act
	Off bool
}

// offer returns the operations of a page about processes of a namespace on a host. An empty namespace or host is that
// of a page about any. What the person may not do there is off.
func (v *view) offer(namespace, host string) (o offer) {
	for _, a := range ops() {
		one, missing := v.offered(a, namespace, host)
		o.Ops, o.Missing = append(o.Ops, one), cmp.Or(missing, o.Missing)
	}
	return o
}

// offered is one operation of offer. missing is the right that has it; empty if the person has it.
func (v *view) offered(a act, namespace, host string) (one offered, missing string) {
	right := access.Operation(a.ID)
	reach := v.who.Anywhere(right)
	if namespace != "" {
		reach = v.who.On(right, namespace)
	}
	missing = access.Operator + " on " + cmp.Or(namespace, "*")
	if reach.Nowhere() {
		return offered{a, true}, missing
	}
	if agent, known := v.LookupID(host); known && !reach.Covers(gate.Host(agent)) {
		return offered{a, true}, missing + " at " + host
	}
	return offered{a, false}, ""
}

// target is one process on one host, as forms name it.
type target struct{ Namespace, Name, Host string }

// parseTarget reads NAMESPACE/NAME@HOST with escaped parts.
func parseTarget(text string) (target, bool) {
	process, host, found := strings.Cut(text, "@")
	namespace, name, whole := strings.Cut(process, "/")
	var t target
	ok := found && whole
	ok = unescape(namespace, &t.Namespace) && unescape(name, &t.Name) && unescape(host, &t.Host) && ok
	return t, ok
}

func unescape(part string, into *string) bool {
	text, err := url.PathUnescape(part)
	*into = text
	return err == nil && text != ""
}

// operate asks for a confirmation, and then carries out an operation on exactly the processes that it has shown.
func (v *view) operate(ctx context.Context) error {
	if err := v.r.ParseForm(); err != nil {
		return &v1.Problem{Status: http.StatusBadRequest}
	}
	op, id := v.r.PostForm.Get("op"), v.r.PostForm.Get("selection")
	known := append(ops(), act{v1.OpSignal, words.Inside.Signal})
	i := slices.IndexFunc(known, func(o act) bool { return o.ID == op })
	if i < 0 {
		return &v1.Problem{Status: http.StatusBadRequest}
	}
	s, err := v.selectionOf(ctx, op, id)
	if e, ok := errors.AsType[*v1.Problem](err); ok && e.Status == http.StatusNotFound && id != "" {
		v.render(http.StatusOK, "confirm", map[string]any{"Expired": true, "Back": backTo(v.r.PostForm.Get("back"))})
		return nil
	}
	if err != nil {
		return err
	}
	if s.Targets > recentAbove && !v.recent() {
		v.signInAgain()
		return nil
	}
	typed, confirmed, status := s.Targets > v.typeAbove() || op == v1.OpKill, v.r.PostForm.Get("confirm"), http.StatusOK
	if s.DeniedCount > 0 && confirmed != "" { // the page has no form that confirms this
		status = http.StatusForbidden
		v.recordForbidden(ctx, op, &s)
	}
	right := confirmed == "yes" && !typed || typed && confirmed == strconv.Itoa(s.Targets)
	body := map[string]any{
		"Op": op, "Word": known[i].Word, "Chosen": s, "Typed": typed,
		"Wrong": id != "" && confirmed != "" && !right,
		"More":  s.Targets - len(s.Sample), "Back": backTo(v.r.PostForm.Get("back")),
	}
	if err := v.confirmation(ctx, op, &s, body); err != nil {
		return err
	}
	noReason := right && body["ReasonAt"] != "" && !v.hasReason()
	body["NoReason"] = noReason
	if id == "" || s.Targets == 0 || s.DeniedCount > 0 || !right || noReason {
		if id != "" && confirmed != "" && status == http.StatusOK { // the page tells what is wrong itself
			v.refused = v.refusedForm(status, "")
		}
		v.render(status, "confirm", body)
		return nil
	}
	r := v1.Request{Op: op, Selection: s.ID}
	if op == v1.OpSignal {
		r.Signal, r.Scope = v.r.PostForm.Get("signal"), v.r.PostForm.Get("scope")
	}
	to, err := v.begin(ctx, r, body["Spread"])
	if err != nil {
		return v.confirmAgain(err, body)
	}
	http.Redirect(v.w, v.r, to, http.StatusSeeOther)
	return nil
}

// confirmAgain shows a confirmation again that the API has refused. Other errors it returns.
func (v *view) confirmAgain(err error, body map[string]any) error {
	known, ok := errors.AsType[*v1.Problem](err)
	if !ok || known.Status >= http.StatusInternalServerError {
		return err
	}
	v.refused = v.refusedForm(known.Status, v.refusal(known))
	v.render(http.StatusOK, "confirm", body)
	return nil
}

// confirmation adds what a confirmation shows or asks beside the processes.
func (v *view) confirmation(ctx context.Context, op string, s *v1.Selection, body map[string]any) (err error) {
	if op == v1.OpSignal {
		body["Signals"] = spec.Signals()
	}
	if s.Targets == 1 && len(s.Sample) == 1 {
		if body["One"], err = v.currentProcess(ctx, &s.Sample[0]); err != nil {
			return err
		}
	}
	if slices.Contains([]string{v1.OpRestart, v1.OpStart, v1.OpStop, v1.OpReload}, op) && s.Hosts > 1 {
		body["Spread"] = spreadOf(v.r.PostForm, s.Hosts)
	}
	body["ReasonAt"], err = v.reasonFor(ctx, s.ID)
	return err
}

// reasonFor returns the first expression that demands a reason for an operation on a selection; empty if none does.
func (v *view) reasonFor(ctx context.Context, selection string) (string, error) {
	if selection == "" {
		return "", nil
	}
	for _, at := range v.ReasonAt {
		rows, _, _, err := v.client.ProcessPage(ctx, client.ProcessFilter{
			Selection: selection, Selector: at, Limit: 1,
		}, "")
		if err != nil || len(rows) > 0 {
			return at, err
		}
	}
	return "", nil
}

// hasReason reports whether the form gives a reason.
func (v *view) hasReason() bool { return strings.TrimSpace(v.r.PostForm.Get("reason")) != "" }

// currentProcess is the present state of a process on a host; nil if its host does not have the process any more.
func (v *view) currentProcess(ctx context.Context, of *v1.SelectedProcess) (*v1.Process, error) {
	rows, _, _, err := v.client.ProcessPage(ctx, client.ProcessFilter{
		Namespace: of.Namespace, Name: of.Name, Hosts: []string{of.Host}, Limit: 1,
	}, "")
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	return &rows[0], nil
}

// spread is the choice of a form: an operation on all hosts at once, or in batches.
type spread struct {
	// On tells that it goes in batches. The other fields are those of a v1.RolloutPlan.
	On                               bool
	Batch, Canary, Bake, MaxFailures string
}

// spreadOf reads a form. A form that does not say it yet gets a careful proposal, which is chosen for many hosts.
func spreadOf(form url.Values, hosts int) *spread {
	if !form.Has("spread") {
		return &spread{On: hosts > groupAbove, Batch: "10%", Canary: "1", Bake: "30s", MaxFailures: "0"}
	}
	return &spread{
		On: form.Get("spread") == "batches", Batch: form.Get("batch"), Canary: form.Get("canary"),
		Bake: form.Get("bake"), MaxFailures: form.Get("max_failures"),
	}
}

// plan returns the plan of the rollout. An empty field has its default.
func (s *spread) plan() (*v1.RolloutPlan, error) {
	var p v1.RolloutPlan
	var err error
	if p.Batch, err = v1.ParseHostCount(cmp.Or(s.Batch, "1")); err != nil {
		return nil, badField("batch", err)
	}
	if p.MaxFailures, err = v1.ParseHostCount(cmp.Or(s.MaxFailures, "0")); err != nil {
		return nil, badField("max_failures", err)
	}
	if p.Bake, err = spec.ParseDuration(cmp.Or(s.Bake, "0s")); err != nil {
		return nil, badField("bake", err)
	}
	if p.Canary, err = strconv.Atoi(cmp.Or(s.Canary, "0")); err != nil {
		return nil, badParameter("canary", s.Canary, "a number of hosts")
	}
	return &p, nil
}

// begin begins an operation on a selection, and returns the page of its task or of its rollout.
func (v *view) begin(ctx context.Context, r v1.Request, how any) (string, error) {
	if s, ok := how.(*spread); ok && s.On {
		var err error
		if r.Rollout, err = s.plan(); err != nil {
			return "", err
		}
		begun, err := v.client.RollOut(ctx, r)
		return telling(path("rollouts", begun.ID), begun.LeftOut), err
	}
	done, err := v.client.Submit(ctx, r)
	return telling(path("tasks", done.ID), done.LeftOut), err
}

// telling is the address of a page that tells how many processes an operation has left out.
func telling(page string, leftOut int) string {
	if leftOut == 0 {
		return page
	}
	return page + "?left_out=" + strconv.Itoa(leftOut)
}

// recordForbidden stores that a person has confirmed an operation on processes that the person may not operate on.
func (v *view) recordForbidden(ctx context.Context, op string, s *v1.Selection) {
	var missing access.Missing
	for _, p := range s.Denied { // the first ones
		missing.Found(access.Operation(op), p.Namespace+"/"+p.Name, p.Host)
	}
	missing.More = s.DeniedCount - 1
	v.recordCall(ctx, store.AuditRow{
		Action: "tasks.create", Target: audit.Clip(missing.Subject, 200), Targets: s.Targets,
		Code: http.StatusForbidden, Message: "not allowed: " + missing.What(),
	})
}

// requested gathers targets: a request names each process once, with its hosts.
func requested(targets []target) (list []v1.Target) {
	at := map[[2]string]int{}
	for _, t := range targets {
		key := [2]string{t.Namespace, t.Name}
		i, ok := at[key]
		if !ok {
			i = len(list)
			at[key] = i
			list = append(list, v1.Target{Namespace: t.Namespace, Name: t.Name})
		}
		list[i].Hosts = append(list[i].Hosts, t.Host)
	}
	return list
}

// selectionOf returns the selection that a form confirms, or makes one of the processes that it names, or of all that
// match its filter without those that it leaves out.
func (v *view) selectionOf(ctx context.Context, op, id string) (v1.Selection, error) {
	if id != "" {
		return v.client.Selection(ctx, id)
	}
	all := v.r.PostForm.Get("all") != ""
	named := "target"
	if all {
		named = "except"
	}
	var targets []target
	for _, text := range v.r.PostForm[named] {
		t, ok := parseTarget(text)
		if !ok || len(targets) == maxNamed {
			return v1.Selection{}, &v1.Problem{Status: http.StatusBadRequest}
		}
		targets = append(targets, t)
	}
	if !all {
		if len(targets) == 0 {
			return v1.Selection{}, nil
		}
		r := v1.SelectionRequest{Op: op, Targets: requested(targets)}
		return v.client.Select(ctx, client.ProcessFilter{}, r)
	}
	q, err := url.ParseQuery(v.r.PostForm.Get("query"))
	if err != nil {
		return v1.Selection{}, &v1.Problem{Status: http.StatusBadRequest}
	}
	return v.client.Select(ctx, processFilter(q), v1.SelectionRequest{Op: op, Except: requested(targets)})
}

// Text is the target in a form. The name of a copy has an @ of its own, which is escaped, too.
func (t target) Text() string {
	escape := func(part string) string { return strings.ReplaceAll(url.PathEscape(part), "@", "%40") }
	return escape(t.Namespace) + "/" + escape(t.Name) + "@" + escape(t.Host)
}

// cancelTask cancels what has not begun of a task.
func (v *view) cancelTask(ctx context.Context) error {
	id := v.r.PathValue("id")
	if _, err := v.client.Cancel(ctx, id); err != nil {
		return err
	}
	http.Redirect(v.w, v.r, path("tasks", id), http.StatusSeeOther)
	return nil
}

// changeRollout pauses, resumes, aborts, approves, retries or undoes a rollout.
func (v *view) changeRollout(ctx context.Context) error {
	id, action := v.r.PathValue("id"), v.r.PathValue("action")
	change := map[string]func(context.Context, string) (v1.Rollout, error){
		"pause": v.client.PauseRollout, "resume": v.client.ResumeRollout, "abort": v.client.AbortRollout,
		"approve": v.client.ApproveRollout,
		"undo": func(ctx context.Context, id string) (v1.Rollout, error) {
			return v.client.UndoRollout(ctx, id, nil)
		},
		"retry": func(ctx context.Context, id string) (v1.Rollout, error) {
			return v.client.RetryRollout(ctx, id, false)
		},
	}[action]
	if change == nil {
		return &v1.Problem{Status: http.StatusNotFound}
	}
	r, err := v.client.Rollout(ctx, id)
	if err != nil {
		return err
	}
	stops := action == "pause" || action == "abort"
	if r.Counts.Hosts > recentAbove && !stops && !v.recent() {
		v.signInAgain()
		return nil
	}
	final := map[string][2]words.Text{ // nobody takes these back
		"abort": {words.Act.Abort, words.Act.AbortNote}, "undo": {words.Act.Undo, words.Act.UndoNote},
	}
	if texts, ok := final[action]; ok && v.r.PostFormValue("confirm") == "" {
		v.render(http.StatusOK, "rollout-confirm", map[string]any{
			"Rollout": &r, "Action": action, "Word": texts[0], "Note": texts[1], "Ask": words.Screen.AskRollout,
			"Begun": r.Counts.Hosts - r.Counts.Waiting - r.Counts.Skipped,
		})
		return nil
	}
	if r, err = change(ctx, id); err != nil {
		return err
	}
	http.Redirect(v.w, v.r, path("rollouts", r.ID), http.StatusSeeOther)
	return nil
}
