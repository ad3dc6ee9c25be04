// Package pulse tells the pages of the console that something has changed, so that they read it again. It says neither
// what has changed nor for whom: a page that reads again sees what its person may see. A hint can be lost or needless;
// readers look again from time to time.
package pulse

import (
	"maps"
	"sync"
	"time"

	"drover/internal/idle"
)

// Topic is what may have changed.
type Topic string

// The topics.
const (
	Processes Topic = "processes"
	Hosts     Topic = "hosts"
	Tasks     Topic = "tasks"
	Rollouts  Topic = "rollouts"
	Events    Topic = "events"
)

// Topics lists them.
func Topics() []Topic { return []Topic{Processes, Hosts, Tasks, Rollouts, Events} }

// Pulse has a version of each topic, which differs after each change and after a restart of the server. It is safe for
// concurrent use.
type Pulse struct {
	mu        sync.Mutex
	versions  map[Topic]int64
	listeners map[chan struct{}]bool
}

// New returns a pulse whose versions begin at the given time.
func New(now time.Time) *Pulse {
	p := &Pulse{versions: map[Topic]int64{}, listeners: map[chan struct{}]bool{}}
	for _, t := range Topics() {
		p.versions[t] = now.UnixMilli()
	}
	return p
}

// Changed raises the versions of topics and wakes the listeners. It never blocks.
func (p *Pulse) Changed(topics ...Topic) {
	if p == nil || len(topics) == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, t := range topics {
		p.versions[t]++
	}
	for l := range p.listeners {
		idle.Wake(l)
	}
}

// Versions returns the versions of all topics.
func (p *Pulse) Versions() map[Topic]int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.versions)
}

// Listen returns a channel that receives after a change; changes that follow one another may be one value. The caller
// must call stop.
func (p *Pulse) Listen() (changed <-chan struct{}, stop func()) {
	l := make(chan struct{}, 1)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.listeners[l] = true
	return l, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.listeners, l)
	}
}
