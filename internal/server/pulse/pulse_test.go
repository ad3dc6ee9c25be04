package pulse_test

import (
	"testing"
	"time"

	"drover/internal/server/pulse"
)

// TestChanged: only the version of a changed topic rises, and every listener wakes once.
func TestChanged(t *testing.T) {
	t.Parallel()
	p := pulse.New(time.Unix(5, 0))
	first, stopFirst := p.Listen()
	second, stopSecond := p.Listen()
	defer stopSecond()
	before := p.Versions()
	if len(before) != len(pulse.Topics()) {
		t.Fatalf("%v has not all topics", before)
	}
	p.Changed(pulse.Tasks, pulse.Events)
	p.Changed(pulse.Tasks)
	p.Changed()
	for topic, by := range map[pulse.Topic]int64{pulse.Tasks: 2, pulse.Events: 1, pulse.Hosts: 0} {
		if got := p.Versions()[topic] - before[topic]; got != by {
			t.Errorf("%s rose by %d, want %d", topic, got, by)
		}
	}
	<-first
	<-second
	stopFirst()
	p.Changed(pulse.Hosts)
	<-second
	select {
	case <-first:
		t.Error("a listener that has stopped is woken")
	default:
	}
	var none *pulse.Pulse
	none.Changed(pulse.Hosts) // a part without a console
}
