package receiver

import (
	"context"
	"encoding/json"
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
	store  Store
	hosts  Hosts
	to     *store.Receiver
	match  expressions
	muted  []mute
	labels map[store.ObservedKey]map[string]string
}

// expressions are the parsed expressions of a receiver or a silence. An empty one matches all.
type expressions struct{ hosts, labels selector.Selector }

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
	f := &filter{store: s.cfg.Store, hosts: s.cfg.Hosts, to: to, labels: map[store.ObservedKey]map[string]string{}}
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
			f.muted = append(f.muted, mute{silence, match, rule})
		}
	}
	return f, nil
}

// events returns the events that the filter must see: the alarms of the receiver, and those that end them.
func (f *filter) events() store.EventFilter {
	e := store.EventFilter{Namespaces: f.to.Match.Namespaces, Kinds: alarm.Kinds()}
	if f.to.Kind == store.KindAlertmanager {
		for _, kind := range alarm.Endings() {
			if !slices.Contains(e.Kinds, kind) {
				e.Kinds = append(e.Kinds, kind)
			}
		}
	}
	return e
}

// selected reports whether the receiver gets this event if no silence withholds it. An unknown host matches no
// expression about hosts.
func (f *filter) selected(ctx context.Context, e *store.StoredEvent) (bool, error) {
	if f.to == nil || !f.wantsKind(e.Event.Kind) {
		return false, nil
	}
	return f.matches(ctx, f.match, e)
}

// wantsKind reports whether the receiver gets alarms of a kind, or the ends of such alarms.
func (f *filter) wantsKind(kind process.EventKind) bool {
	kinds := []process.EventKind{kind}
	if f.to.Kind == store.KindAlertmanager {
		kinds = append(kinds, alarm.Ended(kind)...)
	}
	return slices.ContainsFunc(kinds, func(kind process.EventKind) bool {
		m := &f.to.Match
		return (len(m.Kinds) == 0 || slices.Contains(m.Kinds, kind)) &&
			(len(m.Severities) == 0 || slices.Contains(m.Severities, string(alarm.SeverityOf(kind))))
	})
}

func (f *filter) matches(ctx context.Context, m expressions, e *store.StoredEvent) (bool, error) {
	if !m.hosts.IsZero() {
		host, known := f.hosts.ByKey(e.Agent)
		if !known || !m.hosts.Matches(host.Select) {
			return false, nil
		}
	}
	if m.labels.IsZero() {
		return true, nil
	}
	labels, err := f.labelsOf(ctx, e)
	return m.labels.Matches(func(key string) (string, bool) {
		value, found := labels[key]
		return value, found
	}), err
}

// labelsOf returns the labels of the process of an event.
func (f *filter) labelsOf(ctx context.Context, e *store.StoredEvent) (map[string]string, error) {
	key := store.ObservedKey{Agent: e.Agent, Process: e.Event.Process}
	if labels, known := f.labels[key]; known {
		return labels, nil
	}
	labels := map[string]string{}
	err := f.store.GetObserved(ctx, key.Process, []string{key.Agent}, func(o store.Observed) error {
		if o.Spec != nil && o.Spec.Labels != nil {
			_ = json.Unmarshal(o.Spec.Labels, &labels) // a caller of GSE may give another JSON: then there is no label
		}
		return nil
	})
	if err == nil {
		f.labels[key] = labels
	}
	return labels, err
}

// silence returns the silence that withholds the alarm of an event at a time; empty if there is none.
func (f *filter) silence(ctx context.Context, e *store.StoredEvent, at time.Time) (id string, err error) {
	for i := range f.muted {
		m := &f.muted[i]
		if !m.active(at) || !covers(m.Processes, e.Event.Process) {
			continue
		}
		if ok, err := f.matches(ctx, m.match, e); ok || err != nil {
			return m.ID, err
		}
	}
	return "", nil
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

// holds reports whether the condition of a withheld alarm still holds.
func (f *filter) holds(ctx context.Context, e *store.StoredEvent) (holds bool, err error) {
	err = f.store.GetObserved(ctx, e.Event.Process, []string{e.Agent}, func(o store.Observed) error {
		holds = alarm.Holds(e.Event.Kind, &o.Status)
		return nil
	})
	return holds, err
}

// of returns the event with its host.
func (f *filter) of(e *store.StoredEvent) alarm.Event {
	host, _ := f.hosts.ByKey(e.Agent)
	return alarm.Event{Event: e.Event, Cloud: host.Cloud, IP: host.IP, ID: host.ID}
}
