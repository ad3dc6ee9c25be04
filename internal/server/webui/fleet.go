package webui

import (
	"cmp"
	"context"
	"encoding/csv"
	"fmt"
	"io"
	"iter"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "drover/api/v1"
	"drover/client"
	"drover/internal/server/edge"
	"drover/internal/words"
)

const (
	// groupAbove is the number of processes above which a list without a wish shows groups.
	groupAbove = 200
	// mostPasted is the number of addresses that a person can paste.
	mostPasted = 2000
)

// pageSizes are the sizes of a page.
func pageSizes() []int { return []int{50, 100, 200} }

// filterNames are the parameters of the page of processes; the first ones are flags of drover ps.
func filterNames() (flags, others []string) {
	return []string{"namespace", "name", "hosts", "state", "selector", "process-label", "process-version"},
		[]string{"cause", "stale", "hosted", "selection", "q", "group", "sort", "limit", "cols", "cursor"}
}

// hiddenFilters are the parameters that the form of the page keeps without an input that people see.
func hiddenFilters() []string {
	flags, others := filterNames()
	seen := []string{"namespace", "name", "hosts", "state", "selector", "q", "group", "sort", "limit", "cursor"}
	return slices.DeleteFunc(slices.Concat(flags, others), func(name string) bool {
		return slices.Contains(seen, name)
	})
}

// processFilter reads the filter of a list of processes.
func processFilter(q url.Values) client.ProcessFilter {
	return client.ProcessFilter{
		Namespace: q.Get("namespace"), Name: q.Get("name"), Hosts: fields(q.Get("hosts")),
		Causes: fields(q.Get("cause")), Selection: q.Get("selection"), Search: q.Get("q"),
		Stale: yesNo(q.Get("stale")), Hosted: yesNo(q.Get("hosted")), Selector: q.Get("selector"),
		ProcessChoice: client.ProcessChoice{
			ProcessSelector: q.Get("process-label"), Version: q.Get("process-version"), States: fields(q.Get("state")),
		},
	}
}

// yesNo reads true or false; another text is neither.
func yesNo(text string) *bool {
	b, err := strconv.ParseBool(text)
	if err != nil {
		return nil
	}
	return &b
}

// psCommand is the command that lists the same processes; empty if there is none.
func psCommand(q url.Values) string {
	flags, others := filterNames()
	for _, name := range others[:4] { // of the filter, too
		if q.Get(name) != "" {
			return ""
		}
	}
	var command strings.Builder
	command.WriteString("drover ps")
	for _, flag := range flags {
		if value := q.Get(flag); value != "" {
			command.WriteString(" --" + flag + " " + quote(value))
		}
	}
	if text := q.Get("q"); text != "" {
		command.WriteString(" --search " + quote(text))
	}
	return command.String()
}

// with returns the URL of a page of processes with other values of parameters; it leads to the first page.
func with(q url.Values, changes ...string) string { return linkTo("processes", q, changes...) }

// linkTo is with for the list of a page.
func linkTo(page string, q url.Values, changes ...string) string {
	next := maps.Clone(q)
	delete(next, "cursor")
	for i := 0; i+1 < len(changes); i += 2 {
		if next.Set(changes[i], changes[i+1]); changes[i+1] == "" {
			delete(next, changes[i])
		}
	}
	return Prefix + page + "?" + next.Encode()
}

// facet is a value of a filter with the number of its processes, and the page that has only these.
type facet struct {
	ID, URL string
	Word    words.Text // empty if ID is the name of a state, or no word
	N       int
	On      bool
}

// facetsOf returns the values of a filter, the most frequent first. A value leads to the page that has it, and also
// other values of parameters. A chosen value leads to the page without these.
func facetsOf(q url.Values, name string, counts map[string]int, also ...string) []facet {
	return facetsOn("processes", q, name, counts, also...)
}

// facetsOn is facetsOf for the list of a page.
func facetsOn(page string, q url.Values, name string, counts map[string]int, also ...string) []facet {
	var list []facet
	for id, n := range counts {
		changes, on := append([]string{name, id}, also...), q.Get(name) == id
		for i := 1; on && i < len(changes); i += 2 {
			changes[i] = ""
		}
		list = append(list, facet{ID: id, N: n, On: on, URL: linkTo(page, q, changes...)})
	}
	slices.SortFunc(list, func(a, b facet) int { return cmp.Or(b.N-a.N, cmp.Compare(a.ID, b.ID)) })
	return list
}

// overviewFilters are the parameters of the overview that select processes; severity selects among the causes.
func overviewFilters() []string { return []string{"namespace", "hosts", "selector"} }

// overview shows what is wrong, what goes on, and what happened last.
func (v *view) overview(ctx context.Context) error {
	q, within := v.r.URL.Query(), url.Values{}
	for _, name := range overviewFilters() {
		if value := q.Get(name); value != "" {
			within.Set(name, value)
		}
	}
	f := processFilter(within)
	body := map[string]any{"Filter": q, "Overview": v1.Overview{}}
	err := v.checkParameters(append(overviewFilters(), "severity"))
	var o v1.Overview
	if err == nil {
		o, err = v.client.Overview(ctx, f)
	}
	if err != nil {
		return v.badFilter(err, "overview", body)
	}
	running, _, err := some(v.client.Tasks(ctx, client.TaskFilter{
		State: "running", Namespace: f.Namespace, Hosts: f.Hosts, Selector: f.Selector, Limit: few,
	}), few)
	if err != nil {
		return err
	}
	rollouts, _, err := some(v.client.Rollouts(ctx, client.RolloutFilter{
		State: v1.RolloutActive, Namespace: f.Namespace, Hosts: f.Hosts, Selector: f.Selector, Limit: few,
	}), few)
	if err != nil {
		return err
	}
	happened := client.EventFilter{Hosts: f.Hosts, Selector: f.Selector, Limit: few}
	if f.Namespace != "" {
		happened.Namespaces = []string{f.Namespace}
	}
	events, _, err := some(v.client.Events(ctx, happened), few)
	if err != nil {
		return err
	}
	body["All"], body["StaleURL"] = with(within), with(within, "stale", "true")
	body["Overview"], body["States"] = o, facetsOf(within, "state", o.Processes.States, "stale", "false")
	body["Causes"], body["Severities"] = troubles(q, within, o.Causes), severities(q, o.Causes)
	body["Operations"], body["Rollouts"], body["Events"] = running, rollouts, events
	v.render(http.StatusOK, "overview", body)
	return nil
}

// trouble is a cause with what its row of the overview leads to.
type trouble struct {
	v1.CauseGroup
	// URL is the page of its processes, and Query the filter that selects them.
	URL, Query string
	Bars       []bar
}

// troubles returns the causes of the chosen severity.
func troubles(q, within url.Values, causes []v1.CauseGroup) (rows []trouble) {
	for _, c := range causes {
		if chosen := q.Get("severity"); chosen != "" && chosen != c.Severity {
			continue
		}
		_, query, _ := strings.Cut(with(within, "cause", c.ID), "?")
		rows = append(rows, trouble{
			CauseGroup: c, URL: with(within, "cause", c.ID, "group", "none"), Query: query, Bars: bars(c.Trend),
		})
	}
	return rows
}

// severities returns how many causes have which severity; a severity leads to the overview with only these.
func severities(q url.Values, causes []v1.CauseGroup) (list []facet) {
	for _, c := range causes { // the worst first
		if n := len(list); n > 0 && list[n-1].ID == c.Severity {
			list[n-1].N++
			continue
		}
		next := maps.Clone(q)
		next.Set("severity", c.Severity)
		on := q.Get("severity") == c.Severity
		if on {
			next.Del("severity")
		}
		list = append(list, facet{ID: c.Severity, N: 1, On: on, URL: Prefix + "?" + next.Encode()})
	}
	return list
}

// bar is a step of a trend as a page draws it.
type bar struct{ X, Y, Height int }

// The height of the picture of a trend, and the distance of its bars.
const trendHeight, barStep = 16, 5

// bars draws a trend. The greatest step is as high as the picture, and each step with a process is visible.
func bars(trend []int) []bar {
	list, most := make([]bar, len(trend)), max(1, slices.Max(trend))
	for i, n := range trend {
		height := n * trendHeight / most
		if n > 0 {
			height = max(height, 1)
		}
		list[i] = bar{barStep * i, trendHeight - height, height}
	}
	return list
}

// grouping is a way to group processes.
type grouping struct {
	ID   string
	Word words.Text
}

func groupings() []grouping {
	return []grouping{
		{"process", words.Fleet.ByProcess},
		{"host", words.Fleet.ByHost},
		{"area", words.Fleet.ByArea},
		{"namespace", words.Fleet.ByNamespace},
		{"version", words.Fleet.ByVersion},
		{"cause", words.Fleet.ByCause},
		{"state", words.Fleet.ByState},
		{"none", words.Fleet.Rows},
	}
}

// orders are the orders of rows, or of groups of rows.
func orders(grouped bool) []grouping {
	if grouped {
		return []grouping{
			{"key", words.Fleet.SortKey},
			{"-wrong", words.Fleet.SortWrong},
			{"-total", words.Fleet.SortTotal},
		}
	}
	return []grouping{
		{"process", words.Fleet.ByProcess},
		{"host", words.Fleet.ByHost},
		{"state", words.Fleet.ByState},
		{"-since", words.Fleet.SortSince},
	}
}

// orderOf is the chosen order. That of groups is none for rows: a person who chooses other groups keeps no order.
func orderOf(chosen string, grouped bool) string {
	if slices.ContainsFunc(orders(!grouped), func(o grouping) bool { return o.ID == chosen }) {
		return ""
	}
	return chosen
}

// processes lists processes on their hosts, or groups of them.
func (v *view) processes(ctx context.Context) error {
	q := v.r.URL.Query()
	body := map[string]any{
		"Filter": q, "Query": v.r.URL.RawQuery, "Command": psCommand(q), "Groupings": groupings(), "Sizes": pageSizes(),
		"MostPasted": mostPasted, "Ops": v.offer("", ""),
	}
	if err := v.checkParameters(slices.Concat(filterNames())); err != nil {
		return v.badFilter(err, "processes", body)
	}
	f := processFilter(q)
	total, err := v.fillCounts(ctx, q, f, body)
	if err != nil {
		return v.badFilter(err, "processes", body)
	}
	by := q.Get("group")
	if by == "" && total > groupAbove {
		by = "process"
	}
	grouped := by != "" && by != "none"
	f.Limit, f.Sort = sizeOf(q), orderOf(q.Get("sort"), grouped)
	body["By"], body["Size"], body["Orders"], body["Sort"] = by, f.Limit, orders(grouped), f.Sort
	var next string
	if !grouped {
		var rows []v1.Process
		rows, next, _, err = v.client.ProcessPage(ctx, f, q.Get("cursor"))
		if t, bad := tableOf(rows, q.Get("cols")); bad != nil {
			err = cmp.Or(err, bad)
		} else {
			body["Table"], body["Columns"] = t, t.choices(q)
		}
	} else {
		var groups []v1.ProcessGroup
		groups, next, body["GroupTotal"], err = v.client.GroupPage(ctx, by, f, q.Get("cursor"))
		body["Groups"] = groupRows(q, by, groups)
	}
	if err != nil {
		return v.badFilter(err, "processes", body)
	}
	turn(body, path("processes"), q, next)
	v.render(http.StatusOK, "processes", body)
	return nil
}

// fillCounts puts what stands above a list of processes on its page, and returns the number of the processes.
func (v *view) fillCounts(ctx context.Context, q url.Values, f client.ProcessFilter, body map[string]any) (int, error) {
	var err error
	if body["Views"], err = v.savedViews(ctx); err != nil {
		return 0, err
	}
	o, err := v.client.Overview(ctx, f)
	if err != nil {
		return 0, err
	}
	causes := map[string]int{}
	for _, c := range o.Causes {
		causes[c.ID] = c.Count
	}
	body["Total"], body["Stale"] = o.Processes.Total, o.Processes.Stale
	body["States"] = facetsOf(q, "state", o.Processes.States, "stale", "false")
	body["Causes"] = facetsOf(q, "cause", causes)
	body["StaleURL"], body["Export"] = with(q, "stale", "true"), Prefix+"processes.csv?"+q.Encode()
	if f.Selection != "" {
		body["Pasted"], err = v.client.Selection(ctx, f.Selection)
	}
	return o.Processes.Total, err
}

// unknownParameter returns a parameter that is not one of the known ones, because a misspelt filter would show too
// much.
func unknownParameter(q url.Values, known []string) string {
	for _, name := range slices.Sorted(maps.Keys(q)) {
		if !slices.Contains(known, name) {
			return name
		}
	}
	return ""
}

// checkParameters is the error of a page whose address has a parameter that the page does not have; nil if all are
// known.
func (v *view) checkParameters(parameters []string) error {
	if name := unknownParameter(v.r.URL.Query(), parameters); name != "" {
		return v.rejected(http.StatusBadRequest, words.Fleet.UnknownParameter, "name", visible(name))
	}
	return nil
}

// shortNames returns the short names of filters that an address may have, with the full names.
func shortNames() map[string]string {
	return map[string]string{"ns": "namespace", "host": "hosts", "label": "selector"}
}

// withFilter is a page with a filter. It takes short names of parameters, and on pages without an area of their own an
// area as the pattern of its hosts.
func withFilter(p page) page {
	return func(v *view, ctx context.Context) error {
		q, short := v.r.URL.Query(), false
		for from, to := range shortNames() {
			if q.Has(from) && !q.Has(to) {
				q[to], short = q[from], true
				q.Del(from)
			}
		}
		if area := q.Get("area"); area != "" && !q.Has("hosts") && v.r.URL.Path != path("hosts") {
			q.Set("hosts", area+":*")
			q.Del("area")
			short = true
		}
		if short {
			v.r.URL.RawQuery = q.Encode()
		}
		return p(v, ctx)
	}
}

// only is a page that has some parameters and no others. Pages with a filter of their own show the fault in its place.
func only(p page, parameters ...string) page {
	return func(v *view, ctx context.Context) error {
		if err := v.checkParameters(parameters); err != nil {
			return err
		}
		return p(v, ctx)
	}
}

// sizeOf returns the chosen size of a page.
func sizeOf(q url.Values) int {
	n, _ := strconv.Atoi(q.Get("limit")) // another text is no size
	if !slices.Contains(pageSizes(), n) {
		return perPage
	}
	return n
}

// groupRow is a group with the page of its processes. A group without such a page has no addresses.
type groupRow struct {
	v1.ProcessGroup
	URL    string
	States []facet
}

func groupRows(q url.Values, by string, groups []v1.ProcessGroup) []groupRow {
	rows := make([]groupRow, len(groups))
	rest := maps.Clone(q)
	delete(rest, "state") // a state leads into its group, also if it is the filter
	for i, g := range groups {
		rows[i].ProcessGroup = g
		inside := groupFilter(q, by, g.Key)
		if by == "cause" && g.Wrong < g.Total { // the filter of causes has only what is wrong
			inside = nil
		}
		if inside != nil {
			inside = append(inside, "group", "none", "sort", "")
			rows[i].URL = with(q, inside...)
		}
		rows[i].States = facetsOf(rest, "state", g.States, append(inside, "stale", "false")...)
		for j := range rows[i].States {
			if inside == nil {
				rows[i].States[j].URL = ""
			}
		}
	}
	return rows
}

// groupFilter returns what the filter of a page becomes for the processes of a group; nothing if no filter has them.
func groupFilter(q url.Values, by, key string) []string {
	switch by {
	case "process":
		if strings.Contains(q.Get("name"), "@") { // the group has some copies of the process only
			return nil
		}
		namespace, name, _ := strings.Cut(key, "/")
		return []string{"namespace", literal(namespace), "name", literal(name)}
	case "host":
		return []string{"hosts", literal(key)}
	case "area":
		if q.Get("hosts") != "" { // a list has one filter of hosts
			return nil
		}
		return []string{"hosts", key + ":*"}
	case "namespace":
		return []string{"namespace", literal(key)}
	}
	if key == "" {
		return nil
	}
	switch by {
	case "version":
		return []string{"process-version", literal(key)}
	case "cause", "state":
		return []string{by, key}
	}
	if label, ok := strings.CutPrefix(by, "label:"); ok {
		return []string{"selector", strings.TrimPrefix(q.Get("selector")+","+label+"="+key, ",")}
	}
	return nil
}

// paste leads to the processes on pasted hosts, of at most mostPasted ids or addresses.
func (v *view) paste(ctx context.Context) error {
	hosts := fields(v.r.PostFormValue("hosts"))
	if len(hosts) == 0 || len(hosts) > mostPasted {
		return &v1.Problem{
			Status: http.StatusBadRequest,
			Detail: fmt.Sprintf("there are %d addresses: expected 1 to %d", len(hosts), mostPasted),
		}
	}
	s, err := v.client.Select(ctx, client.ProcessFilter{}, v1.SelectionRequest{Hosts: hosts})
	if err != nil {
		return err
	}
	http.Redirect(v.w, v.r, with(url.Values{}, "selection", s.ID), http.StatusSeeOther)
	return nil
}

// processesCSV sends all processes that match a filter.
func (v *view) processesCSV(ctx context.Context) error {
	return sendCSV(v, "processes.csv", []string{
		"namespace", "name", "host", "address", "state", "stale", "pid", "version", "restarts", "cause", "text",
	}, v.client.Processes(ctx, processFilter(v.r.URL.Query())), csvRow)
}

func csvRow(p v1.Process) []string {
	var pid, version, cause, text string
	if i := p.Instance; i != nil {
		pid, version = strconv.Itoa(i.PID), i.Version
	}
	if text = p.Message; p.Cause != nil {
		cause, text = p.Cause.ID, p.Cause.Text
	}
	return []string{
		p.Namespace, p.Name, p.Host.ID, address(p.Host), p.State, strconv.FormatBool(p.Stale), pid, version,
		strconv.Itoa(p.Restarts), cause, text,
	}
}

// sendCSV sends a list as a file for a spreadsheet, a line for each element. An error before the first line is one of
// the page; a later one breaks the answer off, so that the file does not look whole.
func sendCSV[T any](v *view, name string, heads []string, list iter.Seq2[T, error], line func(T) []string) error {
	control, out := http.NewResponseController(v.w), csv.NewWriter(v.w)
	begun := false
	begin := func() {
		begun = true
		v.w.Header().Set("Content-Type", "text/csv; charset=utf-8")
		v.w.Header().Set("Content-Disposition", `attachment; filename="`+name+`"`)
		_, _ = io.WriteString(v.w, "\ufeff") // spreadsheets take a file without a mark for another encoding
		_ = out.Write(heads)                 // it is buffered
	}
	for element, err := range list {
		if err != nil && !begun {
			return err
		}
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		if !begun {
			begin()
		}
		_ = control.SetWriteDeadline(time.Now().Add(edge.ReplyTime)) // a test recorder has no deadlines
		cells := line(element)
		for i := range cells {
			cells[i] = cell(cells[i])
		}
		if err := out.Write(cells); err != nil {
			return nil //nolint:nilerr // the browser has hung up
		}
	}
	if !begun {
		begin()
	}
	out.Flush()
	return nil
}

// cell makes a text of a cell: a spreadsheet would run one that begins like a formula.
func cell(text string) string {
	text = visible(text)
	if text != "" && strings.ContainsRune("=+-@\t\r", rune(text[0])) {
		return "'" + text
	}
	return text
}
