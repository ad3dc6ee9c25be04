package webui

import (
	"context"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	v1 "drover/api/v1"
	"drover/client"
	"drover/internal/selector"
	"drover/internal/words"
)

// findHost returns the host of the path, by its id or its address.
func (v *view) findHost(ctx context.Context) (v1.JoinedHost, error) {
	id := v.r.PathValue("host")
	rows, _, err := some(v.client.Hosts(ctx, client.HostFilter{Hosts: []string{literal(id)}}), perPage)
	if err != nil {
		return v1.JoinedHost{}, err
	}
	i := slices.IndexFunc(rows, func(a v1.JoinedHost) bool { return a.ID == id || address(a.Host) == id })
	if i < 0 {
		return v1.JoinedHost{}, &v1.Problem{Status: http.StatusNotFound}
	}
	return rows[i], nil
}

// host shows one host: its processes, its agent, and its events.
func (v *view) host(ctx context.Context) error {
	a, err := v.findHost(ctx)
	if err != nil {
		return err
	}
	q := v.r.URL.Query()
	rows, next, total, err := v.client.ProcessPage(ctx, client.ProcessFilter{
		Hosts: []string{literal(a.ID)}, Limit: perPage * 4,
	}, q.Get("cursor"))
	if err != nil {
		return err
	}
	events, _, err := some(v.client.Events(ctx, client.EventFilter{
		Hosts: []string{literal(a.ID)}, Limit: perPage,
	}), perPage)
	if err != nil {
		return err
	}
	labels := make([]string, 0, len(a.Labels))
	for key, value := range a.Labels {
		labels = append(labels, key+"="+value)
	}
	slices.Sort(labels)
	shown, err := tableOf(rows, "")
	if err != nil {
		return err
	}
	body := map[string]any{
		"Host": a, "Table": shown, "Total": total, "Events": events, "Labels": labels, "Admin": v.who.Admin,
		"Ops": v.offer("", a.ID), "AllEvents": eventsPage("", "", a.ID),
		"Query":   url.Values{"hosts": {a.ID}}.Encode(),
		"Command": "drover ps --hosts " + quote(a.ID),
	}
	turn(body, path("hosts", a.ID), q, next)
	v.render(http.StatusOK, "host", body)
	return nil
}

// labelHost sets and removes labels of a host.
func (v *view) labelHost(ctx context.Context) error {
	a, err := v.findHost(ctx)
	if err != nil {
		return err
	}
	request := v1.LabelRequest{Hosts: []string{address(a.Host)}, Set: map[string]string{}}
	for _, text := range fields(v.r.PostFormValue("labels")) {
		key, value, found := strings.Cut(text, "=")
		switch {
		case found:
			request.Set[key] = value
		case strings.HasSuffix(text, "-"):
			request.Remove = append(request.Remove, strings.TrimSuffix(text, "-"))
		default:
			return badParameter("labels", text, "KEY=VALUE to set a label, or KEY- to remove it")
		}
	}
	if _, err := v.client.LabelHosts(ctx, request); err != nil {
		return err
	}
	http.Redirect(v.w, v.r, path("hosts", a.ID), http.StatusSeeOther)
	return nil
}

// removeHost removes a host whose name the person has typed.
func (v *view) removeHost(ctx context.Context) error {
	a, err := v.findHost(ctx)
	if err != nil {
		return err
	}
	if v.r.PostFormValue("typed") != a.ID {
		return v.rejected(http.StatusUnprocessableEntity, words.Admin.WrongName)
	}
	if err := v.client.RemoveHost(ctx, a.ID); err != nil {
		return err
	}
	http.Redirect(v.w, v.r, path("hosts"), http.StatusSeeOther)
	return nil
}

// hostCounts counts the hosts of a list by state and by version of the agent, each without its own filter. There are no
// versions if all hosts have the same one.
func (v *view) hostCounts(ctx context.Context, q url.Values, f client.HostFilter) (states, builds []facet, err error) {
	all, one := f, f
	all.State, one.Build = "", ""
	n, err := v.client.CountHosts(ctx, all, selector.AgentVersion)
	if err != nil {
		return nil, nil, err
	}
	by := map[string]int{v1.HostOnline: n.Online, v1.HostAway: n.Hosts - n.Online}
	maps.DeleteFunc(by, func(id string, n int) bool { return n == 0 && id != f.State })
	versions := map[string]int{}
	if f.State != "" || f.Build != "" {
		if n, err = v.client.CountHosts(ctx, one, selector.AgentVersion); err != nil {
			return nil, nil, err
		}
	}
	for _, g := range n.Groups {
		versions[g.Value] = g.Hosts
	}
	if delete(versions, ""); len(versions) > 1 || f.Build != "" {
		builds = facetsOn("hosts", q, "build", versions)
	}
	return facetsOn("hosts", q, "state", by), builds, nil
}

// hostRow is a host with the numbers of its processes by state. A number leads to these processes.
type hostRow struct {
	v1.JoinedHost
	States []facet
	// Stale is the number of processes of a host that is away.
	Stale    int
	StaleURL string
}

// hostRows counts the processes of some hosts.
func (v *view) hostRows(ctx context.Context, agents []v1.JoinedHost) ([]hostRow, error) {
	if len(agents) == 0 {
		return nil, nil
	}
	f := client.ProcessFilter{Limit: len(agents)}
	for i := range agents {
		f.Hosts = append(f.Hosts, literal(agents[i].ID))
	}
	groups, _, _, err := v.client.GroupPage(ctx, "host", f, "")
	if err != nil {
		return nil, err
	}
	of := make(map[string]*v1.ProcessGroup, len(groups))
	for i := range groups {
		of[groups[i].Key] = &groups[i]
	}
	rows := make([]hostRow, len(agents))
	for i, a := range agents {
		rows[i].JoinedHost = a
		if g := of[a.ID]; g != nil {
			q := url.Values{"hosts": {a.ID}}
			rows[i].States = facetsOf(q, "state", g.States, "stale", "false")
			rows[i].Stale, rows[i].StaleURL = g.Stale, with(q, "stale", "true")
		}
	}
	return rows, nil
}
