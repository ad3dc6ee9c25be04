package alarm

import (
	"maps"
	"strconv"
	"time"

	"drover/internal/process"
)

// Alert is an alarm as Prometheus Alertmanager takes it (API version 2, POST /api/v2/alerts). Its labels name the
// alarm, so that a later alert with the same labels ends it.
type Alert struct {
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations,omitempty"`
	StartsAt    time.Time         `json:"startsAt"`
	EndsAt      time.Time         `json:"endsAt"`
}

const (
	// momentary is how long an alarm about a moment fires, and lasting how long one about a condition fires at most.
	momentary = 5 * time.Minute
	lasting   = 28 * 24 * time.Hour
)

// Alerts returns the alerts of events, oldest first, for a delivery at now. Of alerts with the same labels only the
// last one is left.
func Alerts(events []Event, now time.Time) []Alert {
	type key struct {
		kind    process.EventKind
		process process.ID
		target  [2]string
		// schedule separates the schedules that have failed with the same process on the same host.
		schedule string
	}
	list, places := []Alert{}, map[key]int{}
	put := func(kind process.EventKind, e *Event, a Alert) {
		k := key{kind, e.Process, [2]string{e.target(), e.host()}, e.Schedule}
		if ofFleet(e) {
			k.target = [2]string{}
		}
		if place, met := places[k]; met {
			list[place] = a
			return
		}
		places[k] = len(list)
		list = append(list, a)
	}
	for i := range events {
		e := &events[i]
		at := time.UnixMilli(e.At).UTC()
		for _, kind := range Ended(e.Kind) {
			if e.Kind == process.EventHostRemoved && (kind == process.EventHostAway) != (e.Process == process.ID{}) {
				continue // host-away is an alarm about the host, and the others are about its processes
			}
			put(kind, e, Alert{Labels: e.labels(kind), StartsAt: at, EndsAt: at})
		}
		if e.Ends || !Is(e.Kind) {
			continue
		}
		a := Alert{Labels: e.labels(e.Kind), StartsAt: at, EndsAt: now.Add(momentary).UTC()}
		if Lasts(e.Kind) {
			a.EndsAt = now.Add(lasting).UTC()
		}
		a.Annotations = map[string]string{"summary": content(*e)}
		if e.Cause.ID != "" {
			a.Annotations["cause"] = string(e.Cause.ID)
			a.Annotations["runbook"] = "docs/why/" + string(e.Cause.ID) + ".md"
		}
		put(e.Kind, e, a)
	}
	return list
}

// ofFleet reports whether an event is about a schedule or a rollout: its host is only the one that it is told of.
func ofFleet(e *Event) bool {
	switch e.Kind {
	case process.EventRolloutPaused, process.EventRolloutHeld, process.EventRolloutResumed, process.EventRolloutDone,
		process.EventRolloutFailed,
		process.EventRolloutAborted:
		return true
	default:
		return e.Schedule != ""
	}
}

// labels returns the labels of an alarm of that kind about the process of the event; those that are empty are left out.
// An alarm about a schedule or a rollout does not name the host: it may end when the host has another address, or is
// gone. A process has one active rollout, so that its alarms need no other name.
func (e *Event) labels(kind process.EventKind) map[string]string {
	labels := map[string]string{
		"alertname": "drover-" + string(kind), "severity": string(SeverityOf(kind)), "namespace": e.Process.Namespace,
		"process": e.Process.Name, "schedule": e.Schedule,
	}
	if !ofFleet(e) {
		labels["host"], labels["area"] = e.host(), strconv.Itoa(e.Cloud)
	}
	maps.DeleteFunc(labels, func(_, value string) bool { return value == "" })
	return labels
}
