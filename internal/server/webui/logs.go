package webui

import (
	"context"
	"net/http"
	"net/url"
	"reflect"
	"strconv"
	"strings"
	"time"

	v1 "drover/api/v1"
	"drover/client"
	"drover/internal/server/apiv1"
	"drover/internal/words"
)

const (
	// logLines is the number of the last lines of a log.
	logLines = 200
	// followLines is the number of the last lines with which a followed log begins: as many as a page holds.
	followLines = 5000
	// runsBefore is how many runs before the present one a page offers.
	runsBefore = 9
)

// logPane is the part of a log that a page shows.
type logPane struct {
	// Run is 0 for the present or last run, -1 for the run before.
	Run          int
	Stream, Find string
	// Follow is the path of the lines as they come; empty if the page does not follow the log.
	Follow  string
	Runs    []int
	Streams []string
	Lines   []client.LogLine
	// Problem says why there are no lines.
	Problem string
}

// logOf reads the pane of a call. A log that cannot be read is no fault of the page.
func (v *view) logOf(ctx context.Context, p *client.Process) *logPane {
	q := v.r.URL.Query()
	pane := &logPane{
		Stream: q.Get("stream"), Find: q.Get("find"),
		Streams: []string{v1.StreamStdout, v1.StreamStderr, v1.StreamFile, v1.StreamOutput},
	}
	pane.Run, _ = strconv.Atoi(q.Get("run")) // another text is the present run
	for run := range runsBefore + 1 {
		pane.Runs = append(pane.Runs, -run)
	}
	if q.Get("follow") != "" && pane.Run == 0 {
		pane.Follow = path("processes", p.Namespace, p.Name, "at", p.Host.ID, "log") + "?" +
			url.Values{"stream": {pane.Stream}, "find": {pane.Find}}.Encode()
		if v.r.Header.Get(renews) != "" { // the lines come by themselves
			return pane
		}
	}
	lines, _, err := some(v.client.Logs(ctx, p.Namespace, p.Name, client.LogFilter{
		Hosts: []string{p.Host.ID}, Stream: pane.Stream, Run: pane.Run, Grep: pane.Find, Tail: logLines,
	}), logLines)
	if err != nil {
		pane.Problem = err.Error()
		return pane
	}
	for i, line := range lines {
		switch {
		case line.Error != "":
			pane.Lines, pane.Problem = lines[:i], line.Error
			return pane
		case line.Lost > 0:
			lines[i].Text = words.Logs.Gap.In(v.lang, "n", line.Lost)
		}
	}
	pane.Lines = lines
	return pane
}

// followLog sends the lines of a log as they are written, as /api/v1 does, which also limits how many logs a person
// follows. The stream ends when the browser hangs up, and when the session or the rights of the person change.
func (v *view) followLog(ctx context.Context) error {
	ctx, cancel := context.WithCancel(apiv1.WithConsole(apiv1.WithOperator(ctx, v.who), ""))
	defer cancel()
	go v.unlessChanged(ctx, cancel)
	own, q := v.r.URL.Query(), url.Values{
		"host": {v.r.PathValue("host")}, "tail": {strconv.Itoa(followLines)}, "follow": {"true"},
	}
	for parameter, name := range map[string]string{"stream": "stream", "grep": "find"} {
		if text := own.Get(name); text != "" {
			q.Set(parameter, text)
		}
	}
	route := strings.NewReplacer("{namespace}", url.PathEscape(v.r.PathValue("ns")),
		"{name}", url.PathEscape(v.r.PathValue("name"))).Replace(v1.RouteReadLogs)
	method, at, _ := strings.Cut(route, " ")
	call, err := http.NewRequestWithContext(ctx, method, at+"?"+q.Encode(), http.NoBody)
	if err != nil {
		return err
	}
	call.RemoteAddr, call.RequestURI = v.r.RemoteAddr, call.URL.RequestURI()
	v.API.ServeHTTP(v.w, call)
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
