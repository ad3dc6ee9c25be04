package webui

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	v1 "drover/api/v1"
	"drover/client"
	"drover/internal/words"
)

const (
	// timelineBins is the number of marks that a timeline can have side by side.
	timelineBins = 120
	// timelineEvents is the largest number of events that a timeline draws, and timelineSteps the largest number that
	// it names.
	timelineEvents, timelineSteps = 1000, 12
)

// timeline is the part of a page that draws what happened to a process on a host.
type timeline struct {
	Windows []window
	Span    string
	// Bands are the states, one after another. Marks are the events; each mark stands for all events of its place.
	Bands []band
	Marks []mark
	// Steps names the last events, the oldest first; equal ones are one step. Earlier counts the events before these.
	Steps      []step
	Earlier    int
	Start, End time.Time
	// Text describes the timeline for people who do not see it.
	Text string
	// Cut is the number of drawn events if there were more; else 0.
	Cut int
}

// band is a time in one state. Its place and width are percent of the timeline.
type band struct{ At, Width, State, Class string }

// mark is the events of one place.
type mark struct{ At, Shape, Class, Title string }

// step is an event, or equal events in turn.
type step struct {
	v1.Event
	Count int
	Class words.Class
}

func timelineWindows() []window {
	return []window{
		{"1h", words.Usage.Hour},
		{"6h", words.Timeline.SixHours},
		{"24h", words.Usage.Day},
	}
}

// timelineOf reads the events of a process on a host in a length of time, which is one of timelineWindows.
func (v *view) timelineOf(ctx context.Context, p *v1.Process, span string) (*timeline, error) {
	length, err := time.ParseDuration(span)
	if err != nil {
		return nil, err
	}
	end := v.Now()
	events, more, err := some(v.client.Events(ctx, client.EventFilter{
		Namespaces: []string{literal(p.Namespace)}, Name: literal(p.Name), Hosts: []string{literal(p.Host.ID)},
		Since: end.Add(-length), Limit: timelineEvents + 1,
	}), timelineEvents)
	if err != nil {
		return nil, err
	}
	slices.Reverse(events)
	l := v.drawEvents(p, events, end.Add(-length), end)
	if l.Windows, l.Span = timelineWindows(), span; more {
		l.Cut = timelineEvents
	}
	return l, nil
}

// drawEvents draws events, the oldest first.
func (v *view) drawEvents(p *v1.Process, events []v1.Event, start, end time.Time) *timeline {
	l := &timeline{Start: start, End: end}
	share := func(at time.Time) float64 {
		return min(max(100*float64(at.Sub(start))/float64(end.Sub(start)), 0), 100)
	}
	state, since := p.State, 0.0
	if len(events) > 0 {
		state = cmp.Or(events[0].From, events[0].To)
	}
	until := func(to float64) {
		if to-since >= 100.0/timelineBins/2 || to == 100 {
			l.Bands = append(l.Bands, band{number(since), number(to - since), state, string(words.ClassOf(state))})
			since = to
		}
	}
	bins := map[int][]*v1.Event{}
	for i := range events {
		e := &events[i]
		at := share(e.At)
		if to := words.EventState(e.Kind, e.To); to != "" && to != state {
			until(at)
			state = to
		}
		bin := min(int(at*timelineBins/100), timelineBins-1)
		bins[bin] = append(bins[bin], e)
	}
	if p.Stale {
		state = "stale"
	}
	until(100)
	counts := map[string]int{}
	for bin := range timelineBins {
		if len(bins[bin]) > 0 {
			l.Marks = append(l.Marks, v.markOf(bin, bins[bin]))
		}
		for _, e := range bins[bin] {
			counts[e.Kind]++
		}
	}
	texts := []string{}
	for kind, n := range counts {
		texts = append(texts, fmt.Sprintf("%s ×%d", words.Kind(kind).In(v.lang), n))
	}
	slices.Sort(texts)
	l.Text = words.Timeline.Chart.In(v.lang, "events", cmp.Or(visible(strings.Join(texts, ", ")), "0"))
	steps := fold(events)
	l.Earlier = max(0, len(steps)-timelineSteps)
	l.Steps = steps[l.Earlier:]
	l.Earlier = len(events)
	for _, s := range l.Steps {
		l.Earlier -= s.Count
	}
	return l
}

// markOf is the mark of the events of a bin: that of the worst one.
func (v *view) markOf(bin int, events []*v1.Event) mark {
	worst := words.Idle
	var names []string
	for _, e := range events {
		if c := eventClass(e); weight(c) > weight(worst) {
			worst = c
		}
		name := e.At.UTC().Format("15:04:05 UTC ") + words.Kind(e.Kind).In(v.lang)
		if by := byline(e.Actor, v.lang); by != "" {
			name += " (" + by + ")"
		}
		names = append(names, visible(name))
	}
	if n := len(names); n > few {
		names = append(names[:few], fmt.Sprintf("… ×%d", n))
	}
	return mark{
		At: number((float64(bin) + 0.5) * 100 / timelineBins), Shape: worst.Mark(), Class: string(worst),
		Title: strings.Join(names, "\n"),
	}
}

// fold joins equal events in turn: those of one kind, with one cause and one actor. A process that ends and is
// relaunched again and again does both in turn, so that pairs are joined, too.
func fold(events []v1.Event) (steps []step) {
	equal := func(a, b *v1.Event) bool {
		return a.Kind == b.Kind && a.Actor == b.Actor && causeOf(a) == causeOf(b)
	}
	for _, e := range events {
		n := len(steps)
		joined := false
		for back := 1; back <= 2 && back <= n && !joined; back++ {
			s := &steps[n-back]
			if !equal(&s.Event, &e) || back == 2 && steps[n-1].Count > s.Count {
				continue
			}
			s.Count++
			s.Event, joined = e, true
		}
		if !joined {
			steps = append(steps, step{Event: e, Count: 1, Class: eventClass(&e)})
		}
	}
	slices.SortStableFunc(steps, func(a, b step) int { return a.At.Compare(b.At) })
	return steps
}

func causeOf(e *v1.Event) string {
	if e.Cause == nil {
		return ""
	}
	return e.Cause.ID
}

// weight orders classes, the worst last.
func weight(c words.Class) int {
	return slices.Index([]words.Class{words.Idle, words.Unsure, words.Good, words.Busy, words.Warn, words.Bad}, c)
}

// eventClass says how good an event is.
func eventClass(e *v1.Event) words.Class {
	switch e.Kind {
	case "exited", "killed", "oom-killed", "relaunch-failed", "given-up", "operation-failed", "limit-exceeded",
		"group-limit-exceeded", "taken-down", "unhealthy", "run-failed":
		return words.Bad
	case "relaunched", "flapping", "not-ready", "main-pid-changed", "config-drifted", "run-missed", "events-lost":
		return words.Warn
	case "started", "restarted", "found", "ready", "healthy", "steady", "run-ended", "config-restored":
		return words.Good
	case "run-started", "reloaded", "retried", "signalled":
		return words.Busy
	}
	return words.Idle
}

// beganBy is the event that began the present instance of a process: the newest one of its pid, among events that are
// the newest first. It is nil if the events do not go back so far.
func beganBy(p *v1.Process, events []v1.Event) *v1.Event {
	if p.Instance == nil {
		return nil
	}
	for i := range events {
		switch events[i].Kind {
		case "started", "restarted", "relaunched", "found", "run-started":
			if events[i].PID == p.Instance.PID || events[i].PID == 0 {
				return &events[i]
			}
			return nil
		}
	}
	return nil
}

// inside is the address of the page of a process on a host with other parameters than now.
func inside(q url.Values, changes ...string) string {
	next := url.Values{}
	for _, name := range []string{"last", "span", "run", "stream", "find"} {
		if value := q.Get(name); value != "" {
			next.Set(name, value)
		}
	}
	for i := 0; i+1 < len(changes); i += 2 {
		next.Set(changes[i], changes[i+1])
	}
	return "?" + next.Encode()
}
