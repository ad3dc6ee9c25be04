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
	"drover/internal/process"
	"drover/internal/processfile"
	"drover/internal/words"
)

// processTab is a tab of the page of a process on all its hosts.
type processTab struct {
	ID   string
	Word words.Text
	// show adds to the page what the tab shows.
	show func(v *view, ctx context.Context, body map[string]any) error
}

func processTabs() []processTab {
	return []processTab{
		{"hosts", words.Page.Hosts, (*view).processHosts},
		{"why", words.Head.Why, (*view).processWhy},
		{"logs", words.Head.Log, (*view).processLogs},
		{"history", words.Tabs.History, (*view).processHistory},
		{"spec", words.Head.Spec, (*view).processSpec},
	}
}

// process shows one process on all its hosts.
func (v *view) process(ctx context.Context) error {
	namespace, name := v.r.PathValue("namespace"), v.r.PathValue("name")
	id := cmp.Or(v.r.URL.Query().Get("tab"), "hosts")
	i := slices.IndexFunc(processTabs(), func(t processTab) bool { return t.ID == id })
	if i < 0 {
		return badParameter("tab", id, "hosts, why, logs, history or spec")
	}
	body := map[string]any{
		"Namespace": namespace, "Name": name, "Tabs": processTabs(), "Tab": id,
		"Command": "drover status " + quote(namespace+"/"+name),
	}
	err := processTabs()[i].show(v, ctx, body)
	if known, ok := errors.AsType[*v1.Problem](err); ok &&
		(known.Status == http.StatusForbidden || known.Status == http.StatusNotFound) {
		return &v1.Problem{Status: http.StatusNotFound} // nobody learns which processes there are
	}
	if err != nil {
		return err
	}
	v.render(http.StatusOK, "process", body)
	return nil
}

// processHosts shows the hosts of the process, and its last events.
func (v *view) processHosts(ctx context.Context, body map[string]any) error {
	namespace, name, q := v.r.PathValue("namespace"), v.r.PathValue("name"), v.r.URL.Query()
	rows, next, total, err := v.client.ProcessPage(ctx, client.ProcessFilter{
		Namespace: literal(namespace), Name: literal(name), Limit: perPage * 4,
	}, q.Get("cursor"))
	if err == nil && total == 0 { // it is unknown, or younger than what the server counts
		rows, err = v.client.Process(ctx, namespace, name)
		total = len(rows)
		rows = rows[:min(total, perPage*4)]
	}
	if err != nil {
		return err
	}
	events, _, err := some(v.client.Events(ctx, client.EventFilter{
		Namespaces: []string{literal(namespace)}, Name: literal(name), Limit: perPage,
	}), perPage)
	if err != nil {
		return err
	}
	body["Rows"], body["Total"], body["Events"], body["Ops"] = rows, total, events, v.offer(namespace, "")
	body["AllEvents"] = eventsPage(namespace, name, "")
	turn(body, path("processes", namespace, name), q, next)
	return nil
}

// finding is a problem with the hosts that have it.
type finding struct {
	v1.Finding
	Hosts []string
	// Rest counts the hosts that Hosts leaves out, and All is the list of all.
	Rest int
	All  string
}

// processWhy shows why the process is not as it should be, with equal findings together.
func (v *view) processWhy(ctx context.Context, body map[string]any) error {
	namespace, name := v.r.PathValue("namespace"), v.r.PathValue("name")
	why, err := v.client.Why(ctx, client.WhyFilter{Namespace: literal(namespace), Name: literal(name), All: true})
	if err != nil {
		return err
	}
	if why.Total == 0 && len(why.Findings) == 0 {
		return &v1.Problem{Status: http.StatusNotFound}
	}
	body["Findings"], body["Wrong"], body["Total"] = findings(why.Findings), why.Wrong, why.Total
	body["Command"] = "drover why " + quote(namespace+"/"+name) + " --all"
	return nil
}

// findings joins findings with the same cause and text. They come with the worst first.
func findings(list []v1.Finding) (groups []finding) {
	at := map[[3]string]int{}
	for _, f := range list {
		text := ownPart.ReplaceAllString(f.Cause.Text, "$1…")
		key := [3]string{f.Cause.ID, text, f.Severity}
		i, ok := at[key]
		if !ok {
			i = len(groups)
			at[key] = i
			groups = append(groups, finding{Finding: f})
			groups[i].All = path("processes") + "?" + processQuery(f.Namespace, f.Name, "cause", f.Cause.ID)
		}
		g := &groups[i]
		if g.Cause.Text != f.Cause.Text {
			g.Cause.Text = text
		}
		if s := f.Cause.Since; s != nil && (g.Cause.Since == nil || s.Before(*g.Cause.Since)) {
			g.Cause.Since = s
		}
		if len(g.Hosts) < few {
			g.Hosts = append(g.Hosts, f.Host.ID)
		} else {
			g.Rest++
		}
	}
	return groups
}

// Count is the number of hosts.
func (f finding) Count() int { return len(f.Hosts) + f.Rest }

// processHistory shows who did what to the process, and its events.
func (v *view) processHistory(ctx context.Context, body map[string]any) error {
	namespace, name := v.r.PathValue("namespace"), v.r.PathValue("name")
	events, _, err := some(v.client.Events(ctx, client.EventFilter{
		Namespaces: []string{literal(namespace)}, Name: literal(name), Limit: perPage * 4,
	}), perPage*4)
	if err != nil {
		return err
	}
	body["Events"], body["Deeds"], body["AllEvents"] = events[:min(len(events), perPage)], deeds(events), eventsPage(namespace, name, "")
	body["Command"] = "drover history " + quote(namespace+"/"+name)
	return nil
}

// deed is the effect of one operation, as its events tell.
type deed struct {
	// Event is the newest one.
	v1.Event
	Kinds map[string]int
	Hosts map[string]bool
	// Processes has the first of the processes.
	Processes []string
}

// deeds groups events by the operations that caused them, the latest operation first.
func deeds(events []v1.Event) (list []deed) {
	at := map[string]int{}
	for _, e := range events {
		if e.Actor.Operation == "" {
			continue
		}
		i, ok := at[e.Actor.Operation]
		if !ok {
			i = len(list)
			at[e.Actor.Operation] = i
			list = append(list, deed{Event: e, Kinds: map[string]int{}, Hosts: map[string]bool{}})
		}
		d := &list[i]
		d.Kinds[e.Kind]++
		d.Hosts[e.Host.ID] = true
		if p := e.Namespace + "/" + e.Name; e.Name != "" && !slices.Contains(d.Processes, p) {
			d.Processes = append(d.Processes, p)
		}
	}
	return list
}

// revisedProcess is a revision that has changed a process.
type revisedProcess struct {
	v1.Revision
	Change v1.RevisionChange
	// Changes are the differences; only of the chosen revision.
	Changes []planRow
}

// mostRevisions is the number of revisions of a namespace in which a page looks for those of a process.
const mostRevisions = 200

// processSpec shows the process as its process file has it, the revisions that changed it, and who runs which.
func (v *view) processSpec(ctx context.Context, body map[string]any) error {
	namespace, name, q := v.r.PathValue("namespace"), v.r.PathValue("name"), v.r.URL.Query()
	chosen, _ := strconv.ParseInt(q.Get("revision"), 10, 64) // another text is none
	file, _, err := v.client.File(ctx, namespace)
	if known, ok := errors.AsType[*v1.Problem](err); err != nil && (!ok || known.Status != http.StatusNotFound) {
		return err
	}
	var docs []processfile.Document
	for _, d := range processfile.Documents(file) {
		d.Processes = slices.DeleteFunc(d.Processes, func(n processfile.Named) bool { return n.Name != name })
		if len(d.Processes) > 0 {
			docs = append(docs, d)
		}
	}
	text, err := processfile.Write(docs)
	if err != nil {
		return err
	}
	body["Spec"] = string(text)
	all, more, err := some(v.client.Revisions(ctx, namespace, mostRevisions+1), mostRevisions)
	if err != nil {
		return err
	}
	var list []revisedProcess
	for n, r := range all {
		i := slices.IndexFunc(r.Changes, func(c v1.RevisionChange) bool { return c.Process == name })
		if i < 0 {
			continue
		}
		one := revisedProcess{Revision: r, Change: r.Changes[i]}
		if r.Number == chosen && chosen > 1 {
			former := chosen - 1
			if n+1 < len(all) { // the numbers skip some after a restoration of the database
				former = all[n+1].Number
			}
			if one.Changes, err = v.revision(ctx, namespace, name, former, chosen); err != nil {
				return err
			}
		}
		list = append(list, one)
	}
	body["Revisions"], body["Chosen"], body["MoreRevisions"] = list, chosen, more
	runs := map[int64][]string{}
	rows, _, err := some(v.client.Processes(ctx, client.ProcessFilter{
		Namespace: literal(namespace), Name: literal(name),
	}), mostFailed)
	for _, p := range rows {
		if p.Instance != nil && p.Namespace == namespace && p.Name == name {
			runs[p.Instance.Revision] = append(runs[p.Instance.Revision], p.Host.ID)
		}
	}
	for _, hosts := range runs {
		slices.SortFunc(hosts, process.CompareNatural)
	}
	body["Runs"], body["Command"] = runs, "drover get "+quote(namespace+"/"+name)
	return err
}

// revision returns what a revision has changed of a process since the former one; nothing if the server has forgotten
// one of both.
func (v *view) revision(ctx context.Context, namespace, name string, former, number int64) ([]planRow, error) {
	diff, err := v.client.Compare(ctx, namespace, former, number)
	if known, ok := errors.AsType[*v1.Problem](err); ok && known.Status == http.StatusNotFound {
		return nil, nil
	}
	diff.Changes = slices.DeleteFunc(diff.Changes, func(c v1.Change) bool {
		return c.Process != name || c.Action == "none"
	})
	return rowsOf(&diff), err
}

// processQuery is the filter of a list of processes for one of them, with other parameters.
func processQuery(namespace, name string, more ...string) string {
	q := url.Values{"group": {"none"}, "namespace": {literal(namespace)}, "name": {literal(name)}}
	for i := 0; i+1 < len(more); i += 2 {
		q.Set(more[i], more[i+1])
	}
	return q.Encode()
}

// column is a column of a table of processes that a person may choose. Others are always there.
type column struct {
	ID   string
	Word words.Text
}

// columns are the columns to choose, in their order; usual are those of a table that nobody has chosen.
func columns() (all []column, usual []string) {
	return []column{
		{"pid", words.Head.PID},
		{"started", words.Head.Started},
		{"cpu", words.Head.CPUOfHost},
		{"memory", words.Head.Memory},
		{"restarts", words.Head.Restarts},
		{"hosted", words.Head.Hosted},
		{"revision", words.Tabs.Revision},
		{"version", words.Head.Version},
		{"why", words.Head.Why},
	}, []string{"pid", "started", "cpu", "memory", "restarts", "hosted", "why"}
}

// table is processes with the columns that the page shows.
type table struct {
	Rows  []v1.Process
	shown []string
}

// Columns are the columns of the table that a person may choose.
func (t *table) Columns() []column {
	all, _ := columns()
	return slices.DeleteFunc(all, func(c column) bool { return !t.Shows(c.ID) })
}

// Shows reports whether the table has a column.
func (t *table) Shows(id string) bool { return slices.Contains(t.shown, id) }

// tableOf is a table of the columns that a text names.
func tableOf(rows []v1.Process, chosen string) (*table, error) {
	all, usual := columns()
	t := &table{Rows: rows, shown: fields(chosen)}
	if len(t.shown) == 0 {
		t.shown = usual
	}
	for _, id := range t.shown {
		if !slices.ContainsFunc(all, func(c column) bool { return c.ID == id }) {
			var ids []string
			for _, c := range all {
				ids = append(ids, c.ID)
			}
			return nil, badParameter("cols", id, strings.Join(ids, ", "))
		}
	}
	return t, nil
}

// choices are the columns as links that add or remove one.
func (t *table) choices(q url.Values) (list []facet) {
	all, usual := columns()
	for _, c := range all {
		var next []string
		for _, other := range all {
			if t.Shows(other.ID) != (other.ID == c.ID) {
				next = append(next, other.ID)
			}
		}
		text := strings.Join(next, ",")
		if slices.Equal(next, usual) {
			text = ""
		}
		if len(next) > 0 {
			list = append(list, facet{ID: c.ID, Word: c.Word, On: t.Shows(c.ID), URL: with(q, "cols", text)})
		}
	}
	return list
}
