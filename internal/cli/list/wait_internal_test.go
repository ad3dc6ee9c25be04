package list

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "drover/api/v1"
	"drover/client"
	"drover/internal/cli/remote"
	"drover/internal/cli/selection"
	"drover/internal/command"
	"drover/internal/process"
)

// looks answers each look at the processes with the next state, and all other calls with an empty
type looks struct{ states []string }

func (l *looks) RoundTrip(r *http.Request) (*http.Response, error) {
	body := `{"items":[]}`
	if r.URL.Path == "/api/v1/processes" {
		instance := ""
		if l.states[0] == process.StateRunning {
			instance = `,"instance":{"pid":7}`
		}
		body = fmt.Sprintf(`{"items":[{"namespace":"shop","name":"api","host":{"id":"h","online":true},"state":%q%s}]}`,
			l.states[0], instance)
		l.states = l.states[min(1, len(l.states)-1):]
	}
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(strings.NewReader(body)), Request: r,
	}, nil
}

// TestFirstLook: what the first look sees may be older than the question, so it alone ends no wait before its
// time. A wait that has no time for more ends with what its last look has seen.
func TestFirstLook(t *testing.T) {
	const running, backoff, given = process.StateRunning, process.StateBackoff, process.StateGivenUp
	for name, c := range map[string]struct {
		states  []string
		timeout time.Duration
		code    int
	}{
		"it runs on":                      {[]string{running, running}, time.Minute, command.Done},
		"it was ended just before":        {[]string{running, backoff, running}, time.Minute, command.Done},
		"it was ended, and stays down":    {[]string{running, backoff}, time.Minute, command.Unreachable},
		"it was given up, and has begun":  {[]string{given, running}, time.Minute, command.Done},
		"it was given up, and remains so": {[]string{given, given}, time.Minute, command.Failed},
		"a short look at what runs":       {[]string{running, running}, time.Second, command.Done},
		"a short look at an end":          {[]string{running, backoff}, time.Second, command.Unreachable},
		"a short look at what is given up": {
			[]string{given, given}, 100 * time.Millisecond, command.Failed,
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			host := &looks{states: c.states}
			client, err := client.New(client.Config{URL: "http://drover", AppCode: "a", AppSecret: "s", Transport: host})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), c.timeout)
			defer cancel()
			w := stateWait{
				session: &remote.Session{Timeout: c.timeout}, client: client, args: []string{"shop/api"}, sel: &selection.Selection{},
				until: untilReady,
			}
			err = w.run(ctx)
			code := command.Done
			if exit, ok := errors.AsType[*command.ExitError](err); ok {
				code = exit.Code
			}
			if code != c.code || len(host.states) != 1 {
				t.Errorf("%s: exit code %d, %d states are left: %v", name, code, len(host.states), err)
			}
		})
	}
}

// TestFailedRun: a single run that ended without success has failed, for is-failed as for each wait.
func TestFailedRun(t *testing.T) {
	for _, c := range []struct {
		state, cause, word string
		stopped, hopeless  bool // for a wait until it is stopped
	}{
		{process.StateFinished, "", "inactive", true, false},
		{process.StateFinished, "finished", "inactive", true, false},
		{process.StateFinished, "operation-queued", "inactive", true, false},
		{process.StateFinished, "run-failed", "failed", false, true},
		{process.StateFinished, "command-not-found", "failed", false, true},
		{process.StateGivenUp, "exit-status", "failed", true, false},
		{process.StateStopped, "stopped-by-operation", "inactive", true, false},
	} {
		p := v1.Process{State: c.state}
		if c.cause != "" {
			p.Cause = &v1.Cause{ID: c.cause}
		}
		w := stateWait{until: untilStopped}
		if got := unitWord(&p); got != c.word {
			t.Errorf("%+v: the word is %s", c, got)
		}
		if got := w.holds(p); got != c.stopped {
			t.Errorf("%+v: stopped is %v", c, got)
		}
		if got := w.hopeless([]v1.Process{p}) != nil; got != c.hopeless {
			t.Errorf("%+v: hopeless is %v", c, got)
		}
	}
}
