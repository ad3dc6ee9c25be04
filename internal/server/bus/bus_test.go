package bus_test

import (
	"slices"
	"testing"
	"time"

	"drover/internal/server/bus"
)

// TestVersions: a change raises the version of its topic and of the topics that it implies, and no other.
func TestVersions(t *testing.T) {
	t.Parallel()
	b := bus.New(time.Unix(5, 0))
	before := b.Versions()
	if len(before) != len(bus.PageTopics()) {
		t.Fatalf("%v has not the topics of pages", before)
	}
	b.Changed(bus.Tasks, bus.Events)
	b.Changed(bus.Tasks)
	b.Arrived(bus.Work)
	b.Changed()
	for topic, by := range map[bus.Topic]int64{
		bus.Tasks: 2, bus.Events: 1, bus.Processes: 1, bus.Hosts: 1, bus.Rollouts: 1,
	} {
		if got := b.Versions()[topic] - before[topic]; got != by {
			t.Errorf("%s rose by %d, want %d", topic, got, by)
		}
	}
}

// TestListen: a listener wakes once after changes of its topics, whoever made them, until it stops.
func TestListen(t *testing.T) {
	t.Parallel()
	b := bus.New(time.Now())
	hosts, stopHosts := b.Listen(bus.Hosts)
	work, stopWork := b.Listen(bus.Work, bus.Events)
	defer stopWork()
	woken := func(when string, want ...bool) {
		t.Helper()
		for i, l := range []<-chan struct{}{hosts, work} {
			select {
			case <-l:
				if !want[i] {
					t.Errorf("%s: listener %d is woken", when, i)
				}
			default:
				if want[i] {
					t.Errorf("%s: listener %d is not woken", when, i)
				}
			}
		}
	}
	b.Changed(bus.Work)
	b.Changed(bus.Work)
	woken("a rollout was begun here", false, true)
	woken("nothing more has changed", false, false)
	b.Arrived(bus.Events)
	woken("events were stored elsewhere", true, true)
	b.Changed(bus.Tasks)
	woken("a task has ended", false, false)
	if stopHosts(); b.Listeners() != 1 {
		t.Errorf("%d listen, want 1", b.Listeners())
	}
	b.Changed(bus.Hosts)
	woken("a listener has stopped", false, false)
}

// TestShare: other servers hear each change of this server once, without what it implies, and no change of their own.
func TestShare(t *testing.T) {
	t.Parallel()
	b := bus.New(time.Now())
	var shared []bus.Topic
	b.Changed(bus.Events)
	b.Share(func(t bus.Topic) { shared = append(shared, t) })
	b.Changed(bus.Events, bus.Receivers)
	b.Arrived(bus.Work)
	b.Changed(bus.Tasks)
	if want := []bus.Topic{bus.Events, bus.Receivers, bus.Tasks}; !slices.Equal(shared, want) {
		t.Errorf("shared %v, want %v", shared, want)
	}
}
