package webui

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	v1 "drover/api/v1"
	"drover/client"
	"drover/internal/process"
	"drover/internal/server/access"
	"drover/internal/server/audit"
	"drover/internal/server/store"
	"drover/internal/words"
)

// The longest name of a view, in characters, and its longest filter, in bytes.
const (
	maxViewName  = 60
	maxViewQuery = 2000
)

// savedView is a view as a page shows it.
type savedView struct {
	store.SavedView
	URL string
	// Mine is set if the person may remove it.
	Mine bool
}

// savedViews returns the views of the person, and those that are shared in namespaces that the person may read.
func (v *view) savedViews(ctx context.Context) (list []savedView, err error) {
	all, err := v.Views.ListViews(ctx, v.who.User)
	if err != nil {
		return nil, err
	}
	for _, s := range all {
		if s.User == v.who.User || v.reads(s.Namespace) {
			mine := s.User == v.who.User || v.who.Admin
			list = append(list, savedView{SavedView: s, URL: Prefix + "processes?" + s.Query, Mine: mine})
		}
	}
	return list, nil
}

// reads reports whether the person may list processes of a namespace.
func (v *view) reads(namespace string) bool {
	return !v.who.On(access.OperationOf(process.Query), namespace).Nowhere()
}

// saveView saves the filter of the list of processes under a name.
func (v *view) saveView(ctx context.Context) error {
	s := store.SavedView{
		ID: strings.ToLower(rand.Text()[:10]), User: v.who.User, Created: v.Now(),
		Name: strings.TrimSpace(v.r.PostFormValue("name")), Namespace: strings.TrimSpace(v.r.PostFormValue("share")),
	}
	q, err := url.ParseQuery(v.r.PostFormValue("query"))
	if err != nil {
		return &v1.Problem{Status: http.StatusBadRequest}
	}
	q.Del("cursor")
	s.Query = q.Encode()
	switch unknown := unknownParameter(q, slices.Concat(filterNames())); {
	case unknown != "":
		return v.rejected(http.StatusBadRequest, words.Fleet.UnknownParameter, "name", visible(unknown))
	case q.Has("selection"):
		return v.rejected(http.StatusUnprocessableEntity, words.Views.NoSelection)
	case s.Name == "" || utf8.RuneCountInString(s.Name) > maxViewName || s.Name != visible(s.Name):
		return v.rejected(http.StatusUnprocessableEntity, words.Views.BadName, "n", maxViewName)
	case len(s.Query) > maxViewQuery:
		return v.rejected(http.StatusUnprocessableEntity, words.Views.TooLong, "n", maxViewQuery)
	case s.Namespace != "" && process.ValidateID(process.ID{Namespace: s.Namespace, Name: "a"}) != nil:
		return v.rejected(http.StatusUnprocessableEntity, words.Views.NoNamespace, "name", visible(s.Namespace))
	case s.Namespace != "" && !v.reads(s.Namespace):
		return v.rejected(http.StatusForbidden, words.Views.NoNamespace, "name", visible(s.Namespace))
	}
	err = v.Views.SaveView(ctx, s)
	switch {
	case errors.Is(err, store.ErrExists):
		return v.rejected(http.StatusConflict, words.Views.Taken, "name", s.Name)
	case errors.Is(err, store.ErrTooManyViews):
		return v.rejected(http.StatusConflict, words.Views.TooMany, "n", store.MostViews)
	case err != nil:
		return err
	}
	v.recordCall(ctx, store.AuditRow{Action: "console.save-view", Target: viewTarget(s), Targets: 1, Allowed: true})
	http.Redirect(v.w, v.r, Prefix+"processes?"+s.Query, http.StatusSeeOther)
	return nil
}

// viewTarget names a view in the audit log.
func viewTarget(s store.SavedView) string {
	return audit.Clip(strings.TrimPrefix(s.Namespace+"/"+s.Name, "/"), 200)
}

// rejected is the error of what a person may not do, or has to write otherwise.
func (v *view) rejected(status int, why words.Text, args ...any) error {
	return &v1.Problem{Status: status, Title: http.StatusText(status), Detail: why.In(v.lang, args...)}
}

// removeView removes a view of the person; an administrator removes any.
func (v *view) removeView(ctx context.Context) error {
	list, err := v.savedViews(ctx)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(list, func(s savedView) bool { return s.ID == v.r.PathValue("id") && s.Mine })
	if i < 0 {
		return &v1.Problem{Status: http.StatusNotFound}
	}
	if err := v.Views.RemoveView(ctx, list[i].ID); err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	v.recordCall(ctx, store.AuditRow{
		Action: "console.remove-view", Target: viewTarget(list[i].SavedView), Targets: 1, Allowed: true,
	})
	http.Redirect(v.w, v.r, backTo(cmp.Or(v.r.PostFormValue("back"), Prefix+"processes")), http.StatusSeeOther)
	return nil
}

// place is something that a person can jump to.
type place struct {
	// Kind is view, process, host, task or rollout.
	Kind string `json:"kind"`
	Text string `json:"text"`
	URL  string `json:"url"`
}

// jump finds saved views, processes, hosts, tasks and rollouts by a part of their names, for the palette.
func (v *view) jump(ctx context.Context) error {
	found, err := v.find(ctx, strings.TrimSpace(v.r.URL.Query().Get("q")))
	if err != nil {
		return err
	}
	for i := range found {
		found[i].URL = v.BasePath + found[i].URL
	}
	v.w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(v.w).Encode(found) // the browser has hung up
	return nil
}

// find returns at most few places of each kind.
func (v *view) find(ctx context.Context, text string) ([]place, error) {
	found := []place{}
	if text == "" {
		return found, nil
	}
	views, err := v.savedViews(ctx)
	if err != nil {
		return nil, err
	}
	for _, s := range views {
		if len(found) < few && strings.Contains(strings.ToLower(s.Name), strings.ToLower(text)) {
			found = append(found, place{"view", visible(s.Name), s.URL})
		}
	}
	pattern := "*" + strings.Trim(text, "*") + "*"
	filter := client.ProcessFilter{Name: pattern, Limit: few}
	if namespace, name, whole := strings.Cut(text, "/"); whole {
		filter.Namespace, filter.Name = "*"+namespace, name+"*"
	}
	groups, _, _, err := v.client.GroupPage(ctx, "process", filter, "")
	if err = unlessRejected(err); err != nil {
		return nil, err
	}
	for _, g := range groups {
		namespace, name, _ := strings.Cut(g.Key, "/")
		found = append(found, place{"process", visible(g.Key), path("processes", namespace, name)})
	}
	hosts, _, err := some(v.client.Hosts(ctx, client.HostFilter{Hosts: []string{pattern}, Limit: few}), few)
	if err = unlessRejected(err); err != nil {
		return nil, err
	}
	for _, a := range hosts {
		found = append(found, place{"host", visible(a.ID), path("hosts", a.ID)})
	}
	if o, err := v.client.Task(ctx, text, 0); err == nil {
		found = append(found, place{"task", visible(o.ID + " " + o.Subject), path("tasks", o.ID)})
	} else if err = unlessRejected(err); err != nil {
		return nil, err
	}
	if r, err := v.client.Rollout(ctx, text); err == nil {
		text := visible(r.ID + " " + strings.Join(r.Processes, ", "))
		found = append(found, place{"rollout", text, path("rollouts", r.ID)})
	} else if err = unlessRejected(err); err != nil {
		return nil, err
	}
	return found, nil
}

// unlessRejected returns an error that is no rejection of what the person has typed.
func unlessRejected(err error) error {
	if known, ok := errors.AsType[*v1.Problem](err); ok && known.Status < http.StatusInternalServerError {
		return nil
	}
	return err
}
