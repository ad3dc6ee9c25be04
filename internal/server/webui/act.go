package webui

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	v1 "drover/api/v1"
	"drover/client"
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
		return &client.Error{Status: http.StatusBadRequest}
	}
	op := v.r.PostForm.Get("op")
	i := slices.IndexFunc(ops(), func(o act) bool { return o.ID == op })
	if i < 0 {
		return &client.Error{Status: http.StatusBadRequest}
	}
	targets, away, err := v.chosen(ctx)
	if err != nil {
		return err
	}
	hosts := map[string]bool{}
	for _, t := range targets {
		hosts[t.Host] = true
	}
	typed := len(targets) > typeAbove || op == v1.OpKill
	confirmed := v.r.PostForm.Get("confirm")
	right := confirmed == "yes" && !typed || typed && confirmed == strconv.Itoa(len(targets))
	if len(targets) == 0 || !right {
		body := map[string]any{
			"Op": op, "Word": ops()[i].Word, "Targets": targets, "Hosts": len(hosts), "Away": away, "Typed": typed,
			"Wrong": confirmed != "" && !right, "Back": backTo(v.r.PostForm.Get("back")),
		}
		v.render(http.StatusOK, "confirm", body)
		return nil
	}
	done, err := v.client.Submit(ctx, client.Request{Op: op, Targets: requested(targets)})
	if err != nil {
		return err
	}
	http.Redirect(v.w, v.r, path("tasks", done.ID), http.StatusSeeOther)
	return nil
}

// requested gathers targets: a request names each process once, with its hosts.
func requested(targets []target) (list []client.Target) {
	at := map[[2]string]int{}
	for _, t := range targets {
		key := [2]string{t.Namespace, t.Name}
		i, ok := at[key]
		if !ok {
			i = len(list)
			at[key] = i
			list = append(list, client.Target{Namespace: t.Namespace, Name: t.Name})
		}
		list[i].Hosts = append(list[i].Hosts, t.Host)
	}
	return list
}

// chosen returns the processes of a form: those that it names, or all that match its filter. away counts the processes
// on hosts that are away.
func (v *view) chosen(ctx context.Context) (targets []target, away int, err error) {
	if v.r.PostForm.Get("all") == "" {
		for _, text := range v.r.PostForm["target"] {
			t, ok := parseTarget(text)
			if !ok || len(targets) == maxTargets {
				return nil, 0, &client.Error{Status: http.StatusBadRequest}
			}
			targets = append(targets, t)
		}
		return targets, 0, nil
	}
	q, err := url.ParseQuery(v.r.PostForm.Get("query"))
	if err != nil {
		return nil, 0, &client.Error{Status: http.StatusBadRequest}
	}
	f := processFilter(q)
	f.Limit = maxTargets + 1
	rows, more, err := some(v.client.Processes(ctx, f), maxTargets)
	if err != nil {
		return nil, 0, err
	}
	if more {
		return nil, 0, &client.Error{Status: http.StatusBadRequest}
	}
	for _, p := range rows {
		targets = append(targets, target{p.Namespace, p.Name, p.Host.ID})
		if !p.Host.Online {
			away++
		}
	}
	return targets, away, nil
}

// Text is the target in a form.
func (t target) Text() string {
	return url.PathEscape(t.Namespace) + "/" + url.PathEscape(t.Name) + "@" + url.PathEscape(t.Host)
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
	id := v.r.PathValue("id")
	change := map[string]func(context.Context, string) (client.Rollout, error){
		"pause": v.client.PauseRollout, "resume": v.client.ResumeRollout, "abort": v.client.AbortRollout,
		"approve": v.client.ApproveRollout, "undo": v.client.UndoRollout,
		"retry": func(ctx context.Context, id string) (client.Rollout, error) {
			return v.client.RetryRollout(ctx, id, false)
		},
	}[v.r.PathValue("action")]
	if change == nil {
		return &client.Error{Status: http.StatusNotFound}
	}
	r, err := change(ctx, id)
	if err != nil {
		return err
	}
	http.Redirect(v.w, v.r, path("rollouts", r.ID), http.StatusSeeOther)
	return nil
}
