package cli_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"drover/internal/cli"
)

// pastEvents are what the made-up server of these tests has, the latest first, and newEvent is what it streams then.
const (
	pastEvents = `{"items":[
		{"cursor":2,"at":"2026-11-20T10:00:02Z","received_at":"2026-11-20T10:00:03Z","host":{"id":"web-1","cloud":0,"ip":"10.0.0.1","online":true},
		 "namespace":"web","name":"nginx","kind":"exited","from":"running","to":"backoff","cause":{"id":"killed-by-signal","text":"it was killed by \u001bsignal 11"},
		 "actor":{"kind":"self"},"pid":42,"exit":{"known":true,"code":0,"signal":11},"run_seconds":3725.5,"output":"bye\n"},
		{"cursor":1,"at":"2026-11-20T10:00:01Z","received_at":"2026-11-20T10:00:03Z","host":{"id":"web-1","cloud":0,"ip":"10.0.0.1","online":true},
		 "namespace":"web","name":"nginx","kind":"started","from":"stopped","to":"running","actor":{"kind":"caller","app":"ops","user":"anna"}}
	],"last":2}`
	newEvent = `{"cursor":3,"at":"2026-11-20T10:00:05Z","received_at":"2026-11-20T10:00:05Z","host":{"id":"0:10.0.0.2","cloud":0,"ip":"10.0.0.2","online":true},` +
		`"namespace":"","name":"","kind":"events-lost","attempt":7,"actor":{"kind":"policy"}}`
)

// runEvents runs drover events against the made-up server until the stream has sent its event, and returns what it
// printed.
func runEvents(t *testing.T, args ...string) (stdout, stderr string, asked []string) {
	t.Helper()
	t.Setenv("TZ", "UTC")
	t.Setenv("DROVER_APP_CODE", "code")
	t.Setenv("DROVER_APP_SECRET", "secret")
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	var out signalWriter
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, strings.TrimPrefix(r.URL.RequestURI(), "/api/v1/events"))
		if !strings.HasSuffix(r.URL.Path, "/stream") {
			_, _ = io.WriteString(w, pastEvents)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = fmt.Fprintf(w, ": still here\nid: 2\n\nid: 3\nevent: events-lost\ndata: %s\n\n", newEvent)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}))
	defer s.Close()
	out.seen = func(text string) {
		if strings.Contains(text, "events-lost") {
			interrupt()
		}
	}
	root := cli.NewRoot()
	var talk bytes.Buffer
	root.SetOut(&out)
	root.SetErr(&talk)
	root.SetArgs(append(append([]string{"events"}, args...), "--server", s.URL))
	root.SilenceErrors, root.SilenceUsage = true, true
	if err := root.ExecuteContext(ctx); err != nil {
		t.Errorf("%q: %v", args, err)
	}
	return out.text.String(), talk.String(), asked
}

// signalWriter is a buffer that tells what is written to it.
type signalWriter struct {
	text strings.Builder
	seen func(text string)
}

func (w *signalWriter) Write(data []byte) (int, error) {
	defer w.seen(string(data))
	return w.text.Write(data)
}

func TestEventsInATable(t *testing.T) {
	out, _, asked := runEvents(t, "web/ngi*", "--kind", "exited,started", "--hosts", "web-1", "--limit", "9", "-o",
		"wide")
	want := "" +
		"TIME                     HOST   PROCESS    EVENT    STATE              BY                CAUSE                       PID  EXIT       RAN   ATTEMPT  OUTPUT\n" +
		"2026-11-20 10:00:02 UTC  web-1  web/nginx  exited   running → backoff  self              it was killed by ?signal 11  42   signal 11  1h2m  -        bye\n" +
		"2026-11-20 10:00:01 UTC  web-1  web/nginx  started  stopped → running  anna through ops  -                           -    -          -     -        -\n"
	if squeeze(out) != squeeze(want) {
		t.Errorf("printed\n%s, want\n%s", out, want)
	}
	// The server knows no host of that name any more, but events of it.
	want = "/api/v1/hosts?host=web-1&limit=1000 ?host=web-1&limit=1 " +
		"?host=web-1&kind=exited&kind=started&limit=9&name=ngi%2A&namespace=web"
	if got := strings.Join(asked, " "); got != want {
		t.Errorf("asked for %s", got)
	}
}

// squeeze takes runs of spaces for one: how wide a column is another test says.
func squeeze(text string) string {
	for strings.Contains(text, "  ") {
		text = strings.ReplaceAll(text, "  ", " ")
	}
	return text
}

func TestEventsAreFollowed(t *testing.T) {
	out, talk, asked := runEvents(t, "-f")
	lines := strings.Split(out, "\n")
	if len(lines) != 5 || !strings.HasPrefix(lines[0], "TIME ") || !strings.Contains(lines[1], "started") ||
		!strings.Contains(lines[2], "exited") ||
		!strings.Contains(lines[3], "0:10.0.0.2") || talk != "" {
		t.Errorf("printed\n%s\nsaid %q", out, talk)
	}
	for _, l := range lines[:4] {
		if len(l) < 60 || strings.TrimSpace(l[23:25]) != "" || strings.TrimSpace(l[41:43]) != "" {
			t.Errorf("the columns are not in line: %q", l)
		}
	}
	if got := strings.Join(asked, " "); got != "?limit=1 ?limit=50 /stream?after=2" {
		t.Errorf("asked for %s", got)
	}
}

func TestEventsAreFollowedAsJSON(t *testing.T) {
	out, _, _ := runEvents(t, "-f", "-o", "json", "--limit", "0")
	if out != newEvent[:len(newEvent)-1]+"}\n" && !strings.HasPrefix(out, `{"cursor":3,"at":"2026-11-20T10:00:05Z"`) ||
		strings.Count(out, "\n") != 1 {
		t.Errorf("printed %s", out)
	}
}
