package api_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"

	v1 "drover/api/v1"
	"drover/internal/wire"
)

// logs opens a stream of lines.
func (r *rig) logs(ctx context.Context, s *httptest.Server, app, path string) *http.Response {
	r.t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL+"/api/v1/processes/"+path, nil)
	r.must(err)
	req.Header.Set("X-Bkapi-Authorization", fmt.Sprintf(`{"bk_app_code":%q}`, app))
	resp, err := s.Client().Do(req)
	r.must(err)
	r.t.Cleanup(func() { resp.Body.Close() })
	return resp
}

// lines reads a stream to its end, and compares each line with openapi.yaml.
func (r *rig) lines(resp *http.Response) (all []string) {
	r.t.Helper()
	if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != "application/x-ndjson" {
		r.t.Fatalf("HTTP %d, %s", resp.StatusCode, resp.Header.Get("Content-Type"))
	}
	scan := bufio.NewScanner(resp.Body)
	scan.Buffer(nil, 8<<20)
	for scan.Scan() {
		var v any
		r.must(json.Unmarshal(scan.Bytes(), &v))
		if err := r.doc.Components.Schemas["V1LogLine"].Value.VisitJSON(v, openapi3.MultiErrors()); err != nil {
			r.t.Errorf("not as described: %v", err)
		}
		var l v1.LogLine
		r.must(json.Unmarshal(scan.Bytes(), &l))
		switch {
		case l.Error != "":
			all = append(all, l.Host+" error "+l.Error)
		case l.Lost > 0:
			all = append(all, fmt.Sprintf("%s lost %d", l.Host, l.Lost))
		default:
			all = append(all, fmt.Sprintf("%s %s %d %s", l.Host, l.Stream, l.Run, l.Text))
		}
	}
	slices.SortStableFunc(all, func(a, b string) int { // the lines of a host stay in their order
		hostA, _, _ := strings.Cut(a, " ")
		hostB, _, _ := strings.Cut(b, " ")
		return strings.Compare(hostA, hostB)
	})
	return all
}

// TestLogs: the pieces of each host become lines, a loss and an error among them.
func TestLogs(t *testing.T) {
	r := newRig(t)
	r.app("reader", "read-logs on shop")
	r.observe("shop/api@"+web+" running", "shop/api@"+plain+" running", "shop/api@"+gone+" running")
	var mu sync.Mutex
	var asked []wire.LogQuestion
	r.ask = func(_ context.Context, agent string, q wire.LogQuestion) (wire.LogAnswer, error) {
		mu.Lock()
		asked = append(asked, q)
		mu.Unlock()
		block := func(text string) wire.LogBlock {
			return wire.LogBlock{Stream: "stdout", Run: 2, Time: 1_700_000_000_000, Text: []byte(text)}
		}
		switch {
		case agent == gone:
			return wire.LogAnswer{}, errors.New("the host is not connected")
		case agent == plain:
			return wire.LogAnswer{Error: "the process is not registered on this host"}, nil
		case q.Cursor == "":
			return wire.LogAnswer{Blocks: []wire.LogBlock{block("one\n\ntwo"), {Stream: "stdout", Lost: 7}}, Cursor: "5", More: true}, nil
		case q.Cursor == "5":
			return wire.LogAnswer{Blocks: []wire.LogBlock{block("th\xffree")}, Cursor: "9"}, nil
		}
		t.Errorf("asked with %q", q.Cursor)
		return wire.LogAnswer{}, nil
	}
	s := httptest.NewServer(r.handler)
	t.Cleanup(s.Close)
	resp := r.logs(t.Context(), s, "reader",
		"shop/api/logs?stream=stdout&run=-1&tail=7&grep=a%2B&since=2026-01-02T03:04:05Z")
	if got := resp.Header.Get("X-Drover-Hosts"); got != "3" {
		t.Errorf("there are %s hosts", got)
	}
	want := []string{
		"0:10.0.0.2 error the process is not registered on this host", "3:10.0.0.3 error the host is not connected",
		"web-1 stdout 2 one", "web-1 stdout 2 ", "web-1 stdout 2 two", "web-1 lost 7", "web-1 stdout 2 th\uFFFDree",
	}
	if got := r.lines(resp); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	q := asked[0]
	if q.Stream != "stdout" || q.Run != -1 || q.Tail != 7 || q.Grep != "a+" || q.Since != 1767323045000 || q.Follow ||
		q.Limit < 1<<20 && q.Limit != wire.MaxLogText || q.Process.String() != "shop/api" {
		t.Errorf("the question is %+v", q)
	}
	count := len(asked)
	if got := r.lines(r.logs(t.Context(), s, "reader", "shop/api/logs?tail=0")); len(got) > 0 || len(asked) != count {
		t.Errorf("no line is asked for, and there are %q", got)
	}
	r.refused(r.call("reader", "GET", "/processes/shop/api/logs?host=web-1&tail=x", nil), 422, "tail")
	for query, field := range map[string]string{
		"tail=-1": "tail", "tail=100001": "tail", "run=1": "run", "run=-1&follow=true": "run", "grep=(": "grep",
		"since=now": "since", "stream=all": "stream", "follow=1": "follow", "colour=red": "colour",
		"grep=" + strings.Repeat("a", 1001): "grep",
	} {
		r.refused(r.call("reader", "GET", "/processes/shop/api/logs?"+query, nil), 422, field)
	}
}

// TestRightToReadLogs: query alone is not enough, and what a caller may not read is as if it were not there.
func TestRightToReadLogs(t *testing.T) {
	r := newRig(t)
	r.app("asks", "query on shop")
	r.app("reads", "read on shop")
	r.app("narrow", "read-logs on shop at web-1")
	r.app("elsewhere", "read-logs on shop at 9:*")
	r.observe("shop/api@"+web+" running", "shop/api@"+plain+" running", "secret/api@"+web+" running")
	r.ask = func(_ context.Context, agent string, _ wire.LogQuestion) (wire.LogAnswer, error) {
		return wire.LogAnswer{Blocks: []wire.LogBlock{{Stream: "stdout", Text: []byte(agent)}}}, nil
	}
	s := httptest.NewServer(r.handler)
	t.Cleanup(s.Close)
	for app, want := range map[string]int{"reads": 2, "narrow": 1} {
		if got := r.lines(r.logs(t.Context(), s, app, "shop/api/logs")); len(got) != want {
			t.Errorf("%s reads %q", app, got)
		}
	}
	r.refused(r.call("asks", "GET", "/processes/shop/api/logs?grep=%28&run=x", nil), 403, "") // before it parses
	r.refused(r.call("asks", "GET", "/processes/shop/api/logs", nil), 403, "")
	for _, path := range []string{"/processes/secret/api/logs", "/processes/secret/none/logs"} {
		a := r.call("reads", "GET", path, nil)
		r.refused(a, 403, "")
	}
	r.refused(r.call("reads", "GET", "/processes/shop/none/logs", nil), 404, "")
	r.refused(r.call("elsewhere", "GET", "/processes/shop/api/logs", nil), 404, "")
	r.refused(r.call("reads", "GET", "/processes/shop/api/logs?host=3:10.0.0.3", nil), 404, "")
}

// TestFollowLogs: a stream goes on until its reader hangs up; a host that was away is asked again. A reader that is slow
// holds up nobody else.
func TestFollowLogs(t *testing.T) {
	r := newRig(t)
	r.app("reader", "read-logs on shop")
	r.observe("shop/api@" + web + " running")
	var questions atomic.Int64
	r.ask = func(ctx context.Context, _ string, q wire.LogQuestion) (wire.LogAnswer, error) {
		n := questions.Add(1)
		if !q.Follow {
			return wire.LogAnswer{Blocks: []wire.LogBlock{{Stream: "stdout", Text: []byte("there")}}}, nil
		}
		if n == 2 {
			return wire.LogAnswer{}, errors.New("the host is not connected")
		}
		// A chatty process: each piece is large.
		text := strings.Repeat(fmt.Sprintf("line %d of a piece\n", n), q.Limit/40)
		return wire.LogAnswer{Blocks: []wire.LogBlock{{Stream: "stdout", Text: []byte(text)}}, Cursor: fmt.Sprint(n), More: true},
			ctx.Err()
	}
	s := httptest.NewServer(r.handler)
	t.Cleanup(s.Close)
	ctx, hangUp := context.WithCancel(t.Context())
	resp := r.logs(ctx, s, "reader", "shop/api/logs?follow=true")
	// Nobody reads: the questions stop when the buffers of the connection are full.
	stalled, since := int64(-1), time.Now()
	for tick := time.NewTicker(50 * time.Millisecond); ; <-tick.C {
		if n := questions.Load(); n != stalled {
			stalled, since = n, time.Now()
		}
		if stalled > 2 && time.Since(since) > time.Second {
			tick.Stop()
			break
		}
	}
	if got := r.lines(r.logs(t.Context(), s, "reader", "shop/api/logs")); len(got) != 1 {
		t.Errorf("another reader gets %d lines", len(got))
	}
	scan := bufio.NewScanner(resp.Body)
	saw := map[string]bool{}
	for scan.Scan() && !saw["the host is not connected"] {
		var l v1.LogLine
		if len(scan.Bytes()) > 0 {
			r.must(json.Unmarshal(scan.Bytes(), &l))
			saw[l.Error] = true
		}
	}
	if !saw["the host is not connected"] {
		t.Error("the reader learns nothing of the absence")
	}
	hangUp()
	if r.handler.Stop(); stalled > 200 {
		t.Errorf("%d pieces were on the way to a reader that reads nothing", stalled)
	}
}

// TestFollowAfterAnErrorWithACursor: the reader learns the error, and the host is asked again from the cursor on.
func TestFollowAfterAnErrorWithACursor(t *testing.T) {
	r := newRig(t)
	r.app("reader", "read-logs on shop")
	r.observe("shop/api@" + web + " running")
	r.ask = func(ctx context.Context, _ string, q wire.LogQuestion) (wire.LogAnswer, error) {
		switch q.Cursor {
		case "":
			return wire.LogAnswer{Error: "lines may be missing", Cursor: "5", More: true}, nil
		case "5":
			return wire.LogAnswer{Blocks: []wire.LogBlock{{Stream: "file", Text: []byte("there")}}, Cursor: "6"}, nil
		}
		<-ctx.Done()
		return wire.LogAnswer{}, ctx.Err()
	}
	s := httptest.NewServer(r.handler)
	t.Cleanup(s.Close)
	t.Cleanup(r.handler.Stop)
	scan := bufio.NewScanner(r.logs(t.Context(), s, "reader", "shop/api/logs?follow=true").Body)
	var got []string
	for len(got) < 2 && scan.Scan() {
		var l v1.LogLine
		if len(scan.Bytes()) > 0 {
			r.must(json.Unmarshal(scan.Bytes(), &l))
			got = append(got, l.Error+l.Text)
		}
	}
	if !slices.Equal(got, []string{"lines may be missing", "there"}) {
		t.Errorf("%q", got)
	}
}

// TestHostThatSendsNothing: a host that always has more and sends no line is given up.
func TestHostThatSendsNothing(t *testing.T) {
	r := newRig(t)
	r.app("reader", "read-logs on shop")
	r.observe("shop/api@" + web + " running")
	r.ask = func(context.Context, string, wire.LogQuestion) (wire.LogAnswer, error) {
		return wire.LogAnswer{Cursor: "1", More: true}, nil
	}
	s := httptest.NewServer(r.handler)
	t.Cleanup(s.Close)
	if got := r.lines(r.logs(t.Context(), s, "reader", "shop/api/logs")); !slices.Equal(got, []string{"web-1 error the host sends no lines"}) {
		t.Errorf("%q", got)
	}
}

// TestLogsOfCopies: the log of a process is that of all its copies, and each line names its copy.
func TestLogsOfCopies(t *testing.T) {
	r := newRig(t)
	r.app("reader", "read-logs on shop")
	r.observe("shop/api@1@"+web+" running", "shop/api@2@"+web+" running", "shop/api@2@"+plain+" running", "shop/apix@"+web+" running")
	r.ask = func(_ context.Context, _ string, q wire.LogQuestion) (wire.LogAnswer, error) {
		return wire.LogAnswer{Blocks: []wire.LogBlock{{Stream: "stdout", Text: []byte("I am " + q.Process.Name)}}}, nil
	}
	s := httptest.NewServer(r.handler)
	t.Cleanup(s.Close)
	for name, want := range map[string][]string{
		"api":     {"0:10.0.0.2 api@2 I am api@2", "web-1 api@1 I am api@1", "web-1 api@2 I am api@2"},
		"api%402": {"0:10.0.0.2 api@2 I am api@2", "web-1 api@2 I am api@2"},
	} {
		resp := r.logs(t.Context(), s, "reader", "shop/"+name+"/logs")
		if hosts, logs := resp.Header.Get("X-Drover-Hosts"), resp.Header.Get("X-Drover-Logs"); hosts != "2" ||
			logs != fmt.Sprint(len(want)) {
			t.Errorf("%s hosts and %s logs", hosts, logs)
		}
		var got []string
		scan := bufio.NewScanner(resp.Body)
		for scan.Scan() {
			var l v1.LogLine
			r.must(json.Unmarshal(scan.Bytes(), &l))
			got = append(got, l.Host+" "+l.Name+" "+l.Text)
		}
		slices.Sort(got)
		same(t, name, want, got)
	}
}

// TestUsageHistory: the steps of the host get their times, and a host that does not answer has a problem.
func TestUsageHistory(t *testing.T) {
	r := newRig(t)
	r.app("reader", "query on shop")
	r.app("narrow", "query on shop at web-1")
	r.app("elsewhere", "query on pay")
	r.observe("shop/api@"+web+" running", "shop/api@"+plain+" running", "shop/api@"+gone+" running", "pay/db@"+web+" running")
	var asked []wire.UsageQuestion
	r.usage = func(agent string, q wire.UsageQuestion) (wire.UsageAnswer, error) {
		asked = append(asked, q)
		switch agent {
		case gone:
			return wire.UsageAnswer{}, errors.New("the host is not connected")
		case plain:
			return wire.UsageAnswer{Error: "question refused: it asks for nothing"}, nil // an older agent
		}
		return wire.UsageAnswer{End: 1_700_000_010_000, Steps: []wire.UsageStep{
			{Before: 3, CPU: 0.5, Memory: 1 << 20, Files: 4}, {CPU: 100, Memory: 2 << 20, Restarted: true},
		}}, nil
	}
	shown := r.want(200, r.call("reader", "GET", "/processes/shop/api/hosts/web-1/usage", nil)).body
	equal(t, shown["steps"], []any{
		map[string]any{"at": "2023-11-14T22:12:00Z", "cpu_percent": 0.5, "memory_bytes": 1048576., "open_files": 4.},
		map[string]any{"at": "2023-11-14T22:13:30Z", "cpu_percent": 100., "memory_bytes": 2097152., "restarted": true},
	})
	equal(t, shown["step_seconds"], 30.)
	equal(t, []any{shown["start"], shown["end"]}, []any{"2023-11-14T21:13:30Z", "2023-11-14T22:13:30Z"})
	for last, step := range map[string]float64{"15m": 5, "1h": 30, "24h": 300} {
		equal(t, r.want(200, r.call("narrow", "GET", "/processes/shop/api/hosts/0:10.0.0.1/usage?last="+last, nil)).body["step_seconds"], step)
	}
	for host, problem := range map[string]string{
		"3:10.0.0.3": "the host is not connected", "0:10.0.0.2": "question refused: it asks for nothing",
	} {
		a := r.want(200, r.call("reader", "GET", "/processes/shop/api/hosts/"+host+"/usage?last=24h", nil)).body
		if a["problem"] != problem || a["end"] != nil || len(a["steps"].([]any)) > 0 {
			t.Errorf("%s answers %v", host, a)
		}
	}
	questions := len(asked)
	for _, last := range []string{"2h", "3600", "-1h"} {
		r.refused(r.call("reader", "GET", "/processes/shop/api/hosts/web-1/usage?last="+last, nil), 422, "last")
	}
	r.refused(r.call("reader", "GET", "/processes/shop/api/hosts/web-1/usage?colour=red", nil), 422, "colour")
	r.refused(r.call("elsewhere", "GET", "/processes/shop/api/hosts/web-1/usage", nil), 403, "")
	for _, path := range []string{"shop/api/hosts/web-9", "shop/none/hosts/web-1", "shop/ap*/hosts/web-1"} {
		r.refused(r.call("reader", "GET", "/processes/"+path+"/usage", nil), 404, "")
	}
	r.refused(r.call("narrow", "GET", "/processes/shop/api/hosts/0:10.0.0.2/usage", nil), 404, "")
	if len(asked) != questions {
		t.Errorf("calls without an answer asked hosts: %v", asked[questions:])
	}
	if q := asked[0]; q.Process.String() != "shop/api" || q.Seconds != 3600 {
		t.Errorf("the question is %+v", q)
	}
}
