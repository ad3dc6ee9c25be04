package receiver

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"drover/internal/crontab"
	"drover/internal/process"
	"drover/internal/selector"
	"drover/internal/server/alarm"
	"drover/internal/server/store"
	"drover/internal/wildcard"
)

// filter decides which alarms a receiver gets, during one read of events.
type filter struct {
	store Store
	hosts Hosts
	to    *store.Receiver
	match expressions
	muted []mute
	known map[store.ObservedKey]facts
	// former are the hosts that were removed, by the keys of their agents; nil until an event of one comes.
	former map[string]store.Agent
}

// facts are what the filter knows of a process on a host: its labels, and its state, nil if the host does not have it.
type facts struct {
	labels map[string]string
	status *process.Status
}

// expressions are the parsed expressions of a receiver or a silence, and the patterns of its hosts. An empty one
// matches all.
type expressions struct {
	names         []string
	hosts, labels selector.Selector
}

// parse reads expressions that were checked when they were stored. If one is unreadable all the same, ok is false and
// nothing matches.
func parse(hosts, labels string) (e expressions, ok bool) {
	var err error
	if hosts != "" {
		if e.hosts, err = selector.Parse(hosts); err != nil {
			return e, false
		}
	}
	if labels != "" {
		if e.labels, err = selector.Parse(labels); err != nil {
			return e, false
		}
	}
	return e, true
}

// mute is a silence in use.
type mute struct {
	store.Silence
	match expressions
	rule  crontab.Rule
}

// active reports whether the silence withholds alarms of a time.
func (m *mute) active(at time.Time) bool {
	from, _, ok := m.Window(m.rule, at)
	return ok && !at.Before(from)
}

// newFilter returns a filter with the silences that end after the given time.
func (s *Sender) newFilter(ctx context.Context, to *store.Receiver, since time.Time) (*filter, error) {
	f := &filter{store: s.cfg.Store, hosts: s.cfg.Hosts, to: to, known: map[store.ObservedKey]facts{}}
	var ok bool
	if f.match, ok = parse(to.Match.Selector, to.Match.Labels); !ok {
		f.to = nil
	}
	list, err := s.cfg.Store.ListSilences(ctx, since)
	if err != nil {
		return nil, err
	}
	for _, silence := range list {
		rule, err := silence.Timetable()
		if match, ok := parse(silence.Selector, silence.Labels); ok && err == nil { // both were checked
			match.names = silence.Hosts
			f.muted = append(f.muted, mute{silence, match, rule})
		}
	}
	return f, nil
}

// events returns the events that the filter must see: the alarms of the receiver, and those that end them.
func (f *filter) events() store.EventFilter {
	e := store.EventFilter{Namespaces: f.to.Match.Namespaces, Kinds: alarm.Kinds()}
	for _, kind := range alarm.Endings() {
		if len(f.ended(kind)) > 0 && !slices.Contains(e.Kinds, kind) {
			e.Kinds = append(e.Kinds, kind)
		}
	}
	return e
}

// ended returns the kinds of alarms of which an event of a kind tells the filter the end: all for Alertmanager, which
// ends its alerts, and for other receivers those whose end nothing else shows.
func (f *filter) ended(by process.EventKind) []process.EventKind {
	kinds := alarm.Ended(by)
	if f.to.Kind != store.KindAlertmanager {
		kinds = slices.DeleteFunc(kinds, func(kind process.EventKind) bool { return !alarm.OnlyTold(kind) })
	}
	return kinds
}

// selected reports whether the receiver gets this event if no silence withholds it. An unknown host matches no
// expression about hosts.
func (f *filter) selected(e *store.StoredEvent) bool {
	match := f.match
	if e.Event.Kind == process.EventHostRemoved { // nobody knows any more what the alarms that it ends have matched
		match = expressions{}
	}
	return f.to != nil && f.wantsKind(e.Event.Kind) && f.matches(match, e)
}

// wantsKind reports whether the receiver gets alarms of a kind, or the ends of such alarms.
func (f *filter) wantsKind(kind process.EventKind) bool {
	return f.wants(kind) || slices.ContainsFunc(f.ended(kind), f.wants)
}

// wants reports whether the receiver gets alarms of a kind.
func (f *filter) wants(kind process.EventKind) bool {
	m := &f.to.Match
	return (len(m.Kinds) == 0 || slices.Contains(m.Kinds, kind)) &&
		(len(m.Severities) == 0 || slices.Contains(m.Severities, string(alarm.SeverityOf(kind))))
}

func (f *filter) matches(m expressions, e *store.StoredEvent) bool {
	if len(m.names) > 0 || !m.hosts.IsZero() {
		host, known := f.hosts.ByKey(e.Agent)
		if !known || !host.Named(m.names) || !m.hosts.IsZero() && !m.hosts.Matches(host.Select) {
			return false
		}
	}
	labels := f.known[e.Of()].labels
	return m.labels.IsZero() || m.labels.Matches(func(key string) (string, bool) {
		value, found := labels[key]
		return value, found
	})
}

// mostFormer is how many removed hosts a filter knows.
const mostFormer = 10_000

// prepare reads what the filter needs to decide about events.
func (f *filter) prepare(ctx context.Context, events []store.StoredEvent) error {
	removed := func(e store.StoredEvent) bool { _, known := f.hosts.ByKey(e.Agent); return !known }
	if f.former == nil && slices.ContainsFunc(events, removed) {
		list, err := f.store.ListFormer(ctx, mostFormer)
		if err != nil {
			return err
		}
		f.former = map[string]store.Agent{}
		for i := range list {
			f.former[list[i].Key] = list[i].Agent
		}
	}
	if f.needLabels() {
		return f.readFacts(ctx, events)
	}
	return nil
}

// needLabels reports whether the filter must know the labels of processes.
func (f *filter) needLabels() bool {
	return !f.match.labels.IsZero() ||
		slices.ContainsFunc(f.muted, func(m mute) bool { return !m.match.labels.IsZero() })
}

// readFacts reads the facts about the processes of events, with one statement for each process.
func (f *filter) readFacts(ctx context.Context, events []store.StoredEvent) error {
	agents := map[process.ID][]string{}
	for i := range events {
		key := events[i].Of()
		if _, known := f.known[key]; !known {
			f.known[key] = facts{}
			agents[key.Process] = append(agents[key.Process], key.Agent)
		}
	}
	for id, list := range agents {
		err := f.store.GetObserved(ctx, id, list, func(o store.Observed) error {
			found := facts{labels: map[string]string{}, status: &o.Status}
			if o.Spec != nil { // labels of GSE that are another JSON are none
				maps.Copy(found.labels, o.Spec.Labels)
			}
			f.known[store.ObservedKey{Agent: o.Agent, Process: id}] = found
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// silence returns the silence that withholds the alarm of an event at a time; empty if there is none.
func (f *filter) silence(e *store.StoredEvent, at time.Time) (id string) {
	for i := range f.muted {
		m := &f.muted[i]
		if m.active(at) && covers(m.Processes, e.Event.Process) && f.matches(m.match, e) {
			return m.ID
		}
	}
	return ""
}

// silences tells which silences there are, and when they end.
func (f *filter) silences() string {
	var all strings.Builder
	for i := range f.muted {
		fmt.Fprint(&all, f.muted[i].ID, " ", f.muted[i].End().UnixNano(), "\n")
	}
	return all.String()
}

// covers reports whether one of the patterns matches a process; no pattern matches all.
func covers(patterns []string, id process.ID) bool {
	return len(patterns) == 0 || slices.ContainsFunc(patterns, func(p string) bool {
		namespace, name, both := strings.Cut(p, "/")
		return both && wildcard.Match(namespace, id.Namespace) && wildcard.Match(name, id.Name)
	})
}

// nextEnd returns the earliest end of a silence that withholds alarms at a time; ok is false if there is none.
func (f *filter) nextEnd(at time.Time) (end time.Time, ok bool) {
	for i := range f.muted {
		from, until, any := f.muted[i].Window(f.muted[i].rule, at)
		if any && !at.Before(from) && (!ok || until.Before(end)) {
			end, ok = until, true
		}
	}
	return end, ok
}

// holds reports whether the condition of a withheld alarm still holds. An alarm whose end an event has told is withheld
// no longer.
func (f *filter) holds(e *store.StoredEvent) bool {
	if alarm.OnlyTold(e.Event.Kind) {
		return true
	}
	status := f.known[e.Of()].status
	return status != nil && alarm.Holds(e.Event.Kind, status)
}

// of returns the event with its host.
func (f *filter) of(e *store.StoredEvent) alarm.Event {
	host, known := f.hosts.ByKey(e.Agent)
	if !known {
		host = f.former[e.Agent]
	}
	return alarm.Event{Event: e.Event, Cloud: host.Cloud, IP: host.IP, ID: host.ID}
}
