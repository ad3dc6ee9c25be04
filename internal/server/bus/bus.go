// Package bus tells the parts of a server that something has changed, and tells the other servers. It says only the
// topic: a reader reads the database again, and sees what its caller may see. A notice can be lost or needless, so each
// reader also reads again from time to time.
package bus

import (
	"maps"
	"slices"
	"sync"
	"time"

	"drover/internal/idle"
)

// Topic is a kind of change.
type Topic string

// The topics. Pages of the console follow the first group.
const (
	Processes Topic = "processes"
	Hosts     Topic = "hosts"
	Tasks     Topic = "tasks"
	Rollouts  Topic = "rollouts"
	// Events says that events were stored. Most of them tell of a process and its host.
	Events Topic = "events"

	// Work says that a caller has begun or changed a rollout, a schedule or a breaker, so a server must go on with it.
	Work Topic = "work"
	// Receivers says that a receiver or a silence was changed.
	Receivers Topic = "receivers"
	// Keys says that the keys of the fleet have changed.
	Keys Topic = "keys"
)

// PageTopics returns the topics that pages of the console follow.
func PageTopics() []Topic { return []Topic{Processes, Hosts, Tasks, Rollouts, Events} }

// Topics returns all topics.
func Topics() []Topic { return append(PageTopics(), Work, Receivers, Keys) }

// implied returns the topics that change with another one.
func implied(t Topic) []Topic {
	switch t { //nolint:exhaustive // most topics change alone
	case Events:
		return []Topic{Processes, Hosts}
	case Work:
		return []Topic{Rollouts}
	}
	return nil
}

// Bus passes notices on. It has a version of each topic, which differs after each change and after a restart of the
// server. Its methods never block, and may be called from any goroutine.
type Bus struct {
	mu        sync.Mutex
	versions  map[Topic]int64
	listeners map[Topic]map[chan struct{}]struct{}
	// listening is the number of listeners, each of which may have several topics.
	listening int
	share     func(Topic)
}

// New returns a bus whose versions begin at the given time.
func New(now time.Time) *Bus {
	b := &Bus{versions: map[Topic]int64{}, listeners: map[Topic]map[chan struct{}]struct{}{}, share: func(Topic) {}}
	for _, t := range Topics() {
		b.versions[t], b.listeners[t] = now.UnixMilli(), map[chan struct{}]struct{}{}
	}
	return b
}

// Share has share called for each topic that this server changes from now on. share must not block.
func (b *Bus) Share(share func(Topic)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.share = share
}

// Changed says that this server has changed something. The other servers hear of it, too.
func (b *Bus) Changed(topics ...Topic) {
	b.Arrived(topics...)
	b.mu.Lock()
	share := b.share
	b.mu.Unlock()
	for _, t := range topics {
		share(t)
	}
}

// Arrived says that another server has changed something.
func (b *Bus) Arrived(topics ...Topic) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, t := range topics {
		b.raise(t)
		for _, further := range implied(t) {
			b.raise(further)
		}
	}
}

// raise raises the version of a topic and wakes its listeners. The caller holds the lock.
func (b *Bus) raise(t Topic) {
	b.versions[t]++
	for l := range b.listeners[t] {
		idle.Wake(l)
	}
}

// Versions returns the versions of the topics that pages follow.
func (b *Bus) Versions() map[Topic]int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	versions := maps.Clone(b.versions)
	pages := PageTopics()
	maps.DeleteFunc(versions, func(t Topic, _ int64) bool { return !slices.Contains(pages, t) })
	return versions
}

// Listeners returns the number of channels that Listen has returned and that were not stopped.
func (b *Bus) Listeners() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.listening
}

// Listen returns a channel that receives after a change of one of the topics; several changes before a receive count as
// one. The caller must call stop, once, unless it listens as long as the server runs.
func (b *Bus) Listen(topics ...Topic) (changed <-chan struct{}, stop func()) {
	l := make(chan struct{}, 1)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.listening++
	for _, t := range topics {
		b.listeners[t][l] = struct{}{}
	}
	return l, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.listening--
		for _, t := range topics {
			delete(b.listeners[t], l)
		}
	}
}
