package webui

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "drover/api/v1"
	"drover/client"
	"drover/internal/process"
	"drover/internal/server/api/call"
	"drover/internal/server/edge"
	"drover/internal/words"
)

// detail adds to the page of a process on a host its timeline, what runs there and since when, and what is wrong.
// events are the newest ones.
func (v *view) detail(ctx context.Context, p *v1.Process, events []v1.Event, body map[string]any) error {
	q := v.r.URL.Query()
	span := cmp.Or(q.Get("span"), "1h")
	if !slices.ContainsFunc(timelineWindows(), func(w window) bool { return w.Last == span }) {
		return badParameter("span", span, "1h, 6h or 24h")
	}
	var err error
	if body["Timeline"], err = v.timelineOf(ctx, p, span); err != nil {
		return err
	}
	body["Began"] = beganBy(p, events)
	body["Signal"], _ = v.offered(act{v1.OpSignal, words.Inside.Signal}, p.Namespace, p.Host.ID)
	body["Check"] = inside(q, "check", "1") + "#check"
	if q.Get("check") != "" {
		body["Checked"], err = v.client.Drift(ctx, client.DriftFilter{
			Namespace: literal(p.Namespace), Name: literal(p.Name), Hosts: []string{literal(p.Host.ID)},
		})
		if err != nil {
			return err
		}
	}
	if !p.Stale {
		return nil
	}
	why, err := v.client.Why(ctx, client.WhyFilter{
		Namespace: p.Namespace, Name: p.Name, Hosts: []string{p.Host.ID}, All: true,
	})
	if err != nil {
		return err
	}
	for i := range why.Findings {
		if f := &why.Findings[i]; f.Namespace == p.Namespace && f.Name == p.Name && f.Host.ID == p.Host.ID {
			body["Away"] = f
		}
	}
	return nil
}

// fileLines is the number of the last lines of a log in a file.
const fileLines = 10_000

// logFile sends the last lines of a log as a file.
func (v *view) logFile(ctx context.Context) error {
	q := v.r.URL.Query()
	namespace, name, host := v.r.PathValue("namespace"), v.r.PathValue("name"), v.r.PathValue("host")
	run, _ := strconv.Atoi(q.Get("run")) // another text is the present run
	lines := v.client.Logs(ctx, namespace, name, client.LogFilter{
		Hosts: []string{host}, Stream: q.Get("stream"), Run: min(run, 0), Grep: q.Get("find"), Tail: fileLines,
	})
	control, begun := http.NewResponseController(v.w), false
	begin := func() {
		begun = true
		v.w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		v.w.Header().Set("Content-Disposition", `attachment; filename="`+url.PathEscape(namespace+"-"+name)+`.log"`)
	}
	for line, err := range lines {
		switch {
		case err != nil && !begun:
			return err
		case err != nil:
			panic(http.ErrAbortHandler) // the file must not look whole
		case line.Error != "" && !begun:
			return v.rejected(http.StatusServiceUnavailable, words.Plain(line.Error))
		case line.Error != "":
			panic(http.ErrAbortHandler)
		case !begun:
			begin()
		}
		text := line.Text
		if line.Lost > 0 {
			text = words.Logs.Gap.In(v.lang, "n", line.Lost)
		}
		_ = control.SetWriteDeadline(time.Now().Add(edge.ReplyTime)) // a test recorder has no deadlines
		if _, err := io.WriteString(v.w, text+"\n"); err != nil {
			return nil //nolint:nilerr // the browser has hung up
		}
	}
	if !begun {
		begin()
	}
	return nil
}

// The size of a chart in units of its own. The browser makes it as wide as the page.
const chartWidth, chartHeight = 600, 120

// leastScale is the smallest value at the top of a chart, so that noise looks small: a percent of CPU, or a byte.
const leastScale = 1.0

// betweenLooks is the longest time between two looks of an agent at a process, in seconds.
const betweenLooks = 35

// chart is one figure of a history, drawn by the server.
type chart struct {
	// Name is the name of the figure, and Text describes the chart for people who cannot see it.
	Name, Text string
	// Now is empty if the newest steps have no measurement.
	Now, Most string
	// Lines are the points of the parts without a gap, and Areas the same with the ground below them.
	Lines, Areas []string
	// Restarts are the places of restarts.
	Restarts []string
}

// window is a length of time to choose.
type window struct {
	Last string
	Word words.Text
}

func windows() []window {
	return []window{
		{v1.UsageQuarter, words.Usage.Quarter},
		{v1.UsageHour, words.Usage.Hour},
		{v1.UsageDay, words.Usage.Day},
	}
}

// usage is the part of a page about what a process has used.
type usage struct {
	Windows    []window
	Last       string
	Charts     []chart
	Start, End *time.Time
	Problem    string
}

// usageOf asks the host of a process what the process has used. A host that does not answer is no fault of the page.
func (v *view) usageOf(ctx context.Context, p *v1.Process, last string) usage {
	u := usage{Windows: windows(), Last: last}
	h, err := v.client.UsageHistory(ctx, p.Namespace, p.Name, p.Host.ID, last)
	if err != nil {
		u.Problem = err.Error()
		return u
	}
	u.Problem, u.Start, u.End = h.Problem, h.Start, h.End
	if len(h.Steps) == 0 {
		return u
	}
	steps, recent := h.Window(), max(2, betweenLooks/h.Step)
	u.Charts = []chart{
		v.draw(steps, recent, words.Head.Memory, func(s *v1.UsageStep) float64 { return float64(s.Memory) },
			func(value float64) string { return byteSize(int64(value)) }),
		v.draw(steps, recent, words.Head.CPUOfHost, func(s *v1.UsageStep) float64 { return s.CPU }, percent),
	}
	return u
}

func percent(value float64) string { return strconv.FormatFloat(value, 'f', 2, 64) + " %" }

// draw draws a figure of the steps of a window. The top of the chart stands for the greatest value. The present value
// is one of the recent steps: the next look at the process may be ahead.
func (v *view) draw(steps []*v1.UsageStep, recent int, name words.Text,
	of func(*v1.UsageStep) float64, shown func(float64) string,
) chart {
	c := chart{Name: name.In(v.lang)}
	least, most, gaps := -1.0, 0.0, 0
	for _, s := range steps {
		if s == nil {
			gaps++
			continue
		}
		value := of(s)
		if most = max(most, value); least < 0 || value < least {
			least = value
		}
	}
	scale := max(leastScale, most)
	place := func(i float64) string { return number(i * chartWidth / float64(len(steps))) }
	for begin := 0; begin < len(steps); {
		if steps[begin] == nil {
			begin++
			continue
		}
		end := begin
		var line strings.Builder
		for ; end < len(steps) && steps[end] != nil; end++ {
			if steps[end].Restarted {
				c.Restarts = append(c.Restarts, place(float64(end)))
			}
			fmt.Fprintf(&line, "%s,%s ", place(float64(end)+0.5), number(chartHeight*(1-of(steps[end])/scale)))
		}
		if end-begin == 1 { // a line needs two points
			fmt.Fprintf(&line, "%s,%s ", place(float64(end)), number(chartHeight*(1-of(steps[begin])/scale)))
		}
		points := strings.TrimSpace(line.String())
		first, _, _ := strings.Cut(points, ",")
		last, _, _ := strings.Cut(points[strings.LastIndexByte(points, ' ')+1:], ",")
		c.Lines = append(c.Lines, points)
		c.Areas = append(c.Areas, fmt.Sprintf("%s,%d %s %s,%d", first, chartHeight, points, last, chartHeight))
		begin = end
	}
	c.Most = shown(most)
	for i := len(steps) - 1; i >= max(0, len(steps)-recent) && c.Now == ""; i-- {
		if steps[i] != nil {
			c.Now = shown(of(steps[i]))
		}
	}
	c.Text = words.Usage.Chart.In(v.lang, "name", c.Name, "now", orDash(c.Now), "least", shown(max(least, 0)),
		"most", c.Most, "restarts", len(c.Restarts), "gaps", gaps, "steps", len(steps))
	return c
}

func number(value float64) string { return strconv.FormatFloat(value, 'f', 1, 64) }

func orDash(text string) string {
	if text == "" {
		return "–"
	}
	return text
}

const (
	// logLines is the number of the last lines of a log. Several logs share it, and each has leastLines.
	logLines, leastLines = 200, 20
	// followLines is the number of the last lines with which a followed log begins: as many as a page holds.
	followLines = 5000
	// runsBefore is the number of earlier runs that a page offers.
	runsBefore = 9
)

// logPane is the part of a log that a page shows, of a process on one host or on several.
type logPane struct {
	// Here is the page, and Tab its tab; empty if it has none.
	Here, Tab string
	// Several says that each line names its host. Hosts is then what the person has chosen, and Read how many are read.
	Several bool
	Hosts   string
	Read    int
	// Run is 0 for the present or last run, -1 for the run before.
	Run          int
	Stream, Find string
	// Follow is the path of the lines as they come; empty if the page does not follow the log.
	Follow  string
	Runs    []int
	Streams []string
	Lines   []v1.LogLine
	// Problem says why there are no lines, or none of some hosts.
	Problem string
	// Download is the path of the lines as a file; empty if there is none.
	Download string
}

// logOf reads the pane of a call. A log that cannot be read is no fault of the page.
func (v *view) logOf(ctx context.Context, p *v1.Process) *logPane {
	here := path("processes", p.Namespace, p.Name, "at", p.Host.ID)
	return v.readLog(ctx, p.Namespace, p.Name, []string{p.Host.ID}, &logPane{
		Here: here, Follow: here + "/log", Download: here + "/log.txt" + inside(v.r.URL.Query()),
	})
}

// FileLines is the number of lines of Download.
func (p *logPane) FileLines() int { return fileLines }

// Of is the prefix of a line: the host and the copy of the process, each only if the page may have several.
func (p *logPane) Of(line v1.LogLine) string {
	if !p.Several {
		return ""
	}
	if strings.Contains(line.Name, "@") {
		return line.Host + " " + line.Name + "  "
	}
	return line.Host + "  "
}

// mostLogs is the largest number of hosts whose logs one page reads.
const mostLogs = 20

// processLogs shows the logs of the process on some hosts: those that the person has chosen, or else the first ones.
func (v *view) processLogs(ctx context.Context, body map[string]any) error {
	namespace, name, q := v.r.PathValue("namespace"), v.r.PathValue("name"), v.r.URL.Query()
	rows, _, total, err := v.client.ProcessPage(ctx, client.ProcessFilter{
		Namespace: literal(namespace), Name: literal(name), Hosts: fields(q.Get("hosts")), Limit: mostLogs,
	}, "")
	if err != nil {
		return err
	}
	if total == 0 && q.Get("hosts") == "" {
		return &v1.Problem{Status: http.StatusNotFound}
	}
	var hosts []string
	for i := range rows {
		if !slices.Contains(hosts, rows[i].Host.ID) { // a host may have several copies
			hosts = append(hosts, rows[i].Host.ID)
		}
	}
	here := path("processes", namespace, name)
	pane := &logPane{
		Here: here, Tab: "logs", Follow: here + "/log", Several: true, Hosts: q.Get("hosts"), Read: len(hosts),
	}
	if body["Log"] = pane; len(hosts) > 0 {
		body["Log"] = v.readLog(ctx, namespace, name, hosts, pane)
	}
	command := "drover logs " + quote(namespace+"/"+name)
	if pane.Hosts != "" {
		command += " --hosts " + quote(strings.Join(fields(pane.Hosts), ","))
	}
	body["Command"] = command
	return nil
}

// readLog reads the lines of a pane, whose Follow is the path that follows them.
func (v *view) readLog(ctx context.Context, namespace, name string, hosts []string, pane *logPane) *logPane {
	q, follow := v.r.URL.Query(), pane.Follow
	pane.Stream, pane.Find, pane.Follow = q.Get("stream"), q.Get("find"), ""
	pane.Streams = []string{v1.StreamStdout, v1.StreamStderr, v1.StreamFile, v1.StreamOutput}
	pane.Run, _ = strconv.Atoi(q.Get("run")) // another text is the present run
	for run := range runsBefore + 1 {
		pane.Runs = append(pane.Runs, -run)
	}
	if q.Get("follow") != "" && pane.Run == 0 {
		with := url.Values{"stream": {pane.Stream}, "find": {pane.Find}}
		if pane.Several {
			with["hosts"] = []string{strings.Join(hosts, ",")}
		}
		pane.Follow = follow + "?" + with.Encode()
		if v.r.Header.Get(renews) != "" { // the lines come by themselves
			return pane
		}
	}
	lines, _, err := some(v.client.Logs(ctx, namespace, name, client.LogFilter{
		Hosts: hosts, Stream: pane.Stream, Run: pane.Run, Grep: pane.Find, Tail: max(logLines/len(hosts), leastLines),
	}), logLines*mostLogs)
	if err != nil {
		pane.Problem = err.Error()
		return pane
	}
	var problems []string
	for _, line := range lines {
		switch {
		case line.Error != "" && pane.Several:
			problems = append(problems, line.Host+": "+line.Error)
			continue
		case line.Error != "":
			problems = append(problems, line.Error)
			continue
		case line.Lost > 0:
			line.Text = words.Logs.Gap.In(v.lang, "n", line.Lost)
		}
		pane.Lines = append(pane.Lines, line)
	}
	if pane.Problem = strings.Join(problems, "\n"); pane.Several {
		pane.Lines = byTime(pane.Lines)
	}
	return pane
}

// byTime puts the lines of several hosts in the order of their times, and of their hosts at the same time. A line
// without a time stays behind the line of its host before it.
func byTime(lines []v1.LogLine) []v1.LogLine {
	type timed struct {
		v1.LogLine
		at time.Time
	}
	all, last := make([]timed, len(lines)), map[string]time.Time{}
	for i, line := range lines {
		from := line.Host + " " + line.Name
		if line.Time != nil {
			last[from] = *line.Time
		}
		all[i] = timed{line, last[from]}
	}
	slices.SortStableFunc(all, func(a, b timed) int {
		return cmp.Or(a.at.Compare(b.at), process.CompareNatural(a.Host, b.Host), cmp.Compare(a.Name, b.Name))
	})
	for i := range all {
		lines[i] = all[i].LogLine
	}
	return lines
}

// followLog sends the lines of a log as they are written, as /api/v1 does, which also limits how many logs a person
// follows. The stream ends when the browser hangs up, and when the session or the rights of the person change.
func (v *view) followLog(ctx context.Context) error {
	own, q := v.r.URL.Query(), url.Values{"tail": {strconv.Itoa(followLines)}, "follow": {"true"}}
	if q["host"] = []string{v.r.PathValue("host")}; own.Has("hosts") {
		q["host"] = fields(own.Get("hosts"))
		q.Set("tail", strconv.Itoa(max(logLines/max(len(q["host"]), 1), leastLines)))
	}
	for parameter, name := range map[string]string{"stream": "stream", "grep": "find"} {
		if text := own.Get(name); text != "" {
			q.Set(parameter, text)
		}
	}
	route := strings.NewReplacer("{namespace}", url.PathEscape(v.r.PathValue("namespace")),
		"{name}", url.PathEscape(v.r.PathValue("name"))).Replace(v1.RouteReadLogs)
	return v.stream(ctx, v.w, route, q)
}

// stream sends a stream of /api/v1 to w.
func (v *view) stream(ctx context.Context, w http.ResponseWriter, route string, q url.Values) error {
	ctx, cancel := context.WithCancel(call.WithConsole(call.WithOperator(ctx, v.who), ""))
	defer cancel()
	go v.unlessChanged(ctx, cancel)
	method, at, _ := strings.Cut(route, " ")
	call, err := http.NewRequestWithContext(ctx, method, at+"?"+q.Encode(), http.NoBody)
	if err != nil {
		return err
	}
	call.RemoteAddr, call.RequestURI = v.r.RemoteAddr, call.URL.RequestURI()
	v.API.ServeHTTP(w, call)
	return nil
}

// unlessChanged ends a stream when its person may not be here any more, or has other rights.
func (v *view) unlessChanged(ctx context.Context, end func()) {
	tick := time.NewTicker(recheck)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if who, _, err := v.person(ctx, v.r); err != nil || !reflect.DeepEqual(who, v.who) {
				end()
				return
			}
		case <-ctx.Done():
			return
		}
	}
}
