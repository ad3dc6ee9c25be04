package eventlog_test

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"drover/internal/agent/eventlog"
	"drover/internal/process"
)

// of returns an event of a process with a name.
func of(name string, kind process.EventKind, pid, attempt int) process.Event {
	return process.Event{
		At: 2000, Process: process.ID{Namespace: "ns", Name: name}, Kind: kind, PID: pid, Attempt: attempt,
	}
}

// TestAnEventIsWrittenOnce: an agent that comes to an event which the agent before has written does not write it again,
// and writes everything else.
func TestAnEventIsWrittenOnce(t *testing.T) {
	exited := of("a", process.EventExited, 5, 0)
	for name, c := range map[string]struct {
		booted       int64
		before, then []process.Event
		want         string // of the events of then
	}{
		"the same end": {
			before: []process.Event{exited},
			then:   []process.Event{exited, of("a", process.EventRelaunched, 6, 1)},
			want:   "relaunched 6",
		},
		"the same end, and once more": {
			before: []process.Event{exited}, then: []process.Event{exited, exited}, want: "exited 5",
		},
		"an end of which less is known": {
			before: []process.Event{of("a", process.EventStopped, 5, 0)}, then: []process.Event{exited},
		},
		"two events": {
			before: []process.Event{exited, of("a", process.EventGivenUp, 0, 3)},
			then:   []process.Event{exited, of("a", process.EventGivenUp, 0, 3), of("a", process.EventRetried, 0, 0)},
			want:   "retried 0",
		},
		"one of two": {
			before: []process.Event{exited},
			then:   []process.Event{exited, of("a", process.EventGivenUp, 0, 3)},
			want:   "given-up 0",
		},
		"three events": {
			before: []process.Event{
				of("a", process.EventRelaunchFailed, 0, 3), of("a", process.EventGivenUp, 0, 3),
				of("a", process.EventFlapping, 0, 0),
			},
			then: []process.Event{
				of("a", process.EventRelaunchFailed, 0, 3), of("a", process.EventGivenUp, 0, 3),
				of("a", process.EventFlapping, 0, 0), of("a", process.EventSteady, 0, 0),
			},
			want: "steady 0",
		},
		"what was so once before": {
			before: []process.Event{
				of("a", process.EventSteady, 0, 0), of("a", process.EventRelaunched, 5, 1),
				of("a", process.EventFlapping, 0, 0),
			},
			then: []process.Event{of("a", process.EventSteady, 0, 0)},
			want: "steady 0",
		},
		"what follows must follow": {
			before: []process.Event{
				exited, of("a", process.EventRelaunched, 6, 1), of("a", process.EventFlapping, 0, 0),
			},
			then: []process.Event{exited, of("a", process.EventFlapping, 0, 0)},
			want: "flapping 0",
		},
		"another instance": {
			before: []process.Event{exited},
			then:   []process.Event{of("a", process.EventExited, 6, 0)},
			want:   "exited 6",
		},
		"the same pid after another event": {
			before: []process.Event{exited},
			then:   []process.Event{of("a", process.EventFound, 5, 0), exited},
			want:   "found 5, exited 5",
		},
		"another process": {
			before: []process.Event{exited}, then: []process.Event{of("b", process.EventExited, 5, 0)}, want: "exited 5",
		},
		"another relaunch": {
			before: []process.Event{of("a", process.EventRelaunchFailed, 0, 1)},
			then:   []process.Event{of("a", process.EventRelaunchFailed, 0, 2)},
			want:   "relaunch-failed 0",
		},
		"what can happen twice": {
			before: []process.Event{of("a", process.EventReloaded, 5, 0)},
			then:   []process.Event{of("a", process.EventReloaded, 5, 0)},
			want:   "reloaded 5",
		},
		"another boot": {
			booted: 2001, before: []process.Event{exited}, then: []process.Event{exited}, want: "exited 5",
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			l := open(t, dir)
			for _, e := range c.before {
				l.Append(e)
			}
			must(t, l.Close())
			for range 3 { // agents that have nothing to tell
				l = open(t, dir)
				l.Append(of("", process.EventState, 0, 0))
				must(t, l.Close())
			}
			l, err := eventlog.Open(eventlog.Config{Dir: dir, Booted: c.booted, Log: slog.New(slog.DiscardHandler)})
			must(t, err)
			defer l.Close()
			old := len(pending(t, l))
			for _, e := range c.then {
				l.Append(e)
			}
			var got []string
			for _, e := range decoded(pending(t, l)[old:]) {
				got = append(got, fmt.Sprint(e.Kind, " ", e.PID))
			}
			same(t, "written", c.want, strings.Join(got, ", "))
		})
	}
}

// TestOperationsOfEarlierAgents: a log knows the operations of which earlier agents have told, and since when it knows.
func TestOperationsOfEarlierAgents(t *testing.T) {
	dir := t.TempDir()
	if told, since := open(t, dir).Operations(); len(told) > 0 || since != 0 {
		t.Errorf("an empty log tells of %v since %d", told, since)
	}
	for i := range 2 {
		l := open(t, dir)
		e := of("a", process.EventStarted, 5+i, 0)
		e.At += int64(i)
		e.Actor.Operation = fmt.Sprint("item-", i)
		l.Append(e)
		must(t, l.Close())
	}
	l := open(t, dir)
	own := of("a", process.EventReloaded, 5, 0)
	own.Actor.Operation = "item-2"
	l.Append(own)
	told, since := l.Operations()
	same(t, "told", map[string]bool{"item-0 ns/a": true, "item-1 ns/a": true}, told)
	same(t, "since", int64(2000), since)
}
