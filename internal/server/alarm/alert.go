package alarm

import (
	"cmp"
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
		target  string
		// schedule separates the schedules that have failed with the same process on the same host.
		schedule string
	}
	list, places := []Alert{}, map[key]int{}
	put := func(kind process.EventKind, e *Event, a Alert) {
		k := key{kind, e.Process, e.target(), e.Schedule}
		if e.Schedule != "" {
			k.target = ""
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
			put(kind, e, Alert{Labels: e.labels(kind), StartsAt: at, EndsAt: at})
		}
		if !Is(e.Kind) {
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

// labels returns the labels of an alarm of that kind about the process of the event. An alarm about a schedule does not
// name the host: another run may end it when the host has another address, or is gone.
func (e *Event) labels(kind process.EventKind) map[string]string {
	labels := map[string]string{
		"alertname": "drover-" + string(kind), "severity": string(SeverityOf(kind)), "namespace": e.Process.Namespace,
		"process": e.Process.Name,
	}
	if e.Schedule != "" {
		labels["schedule"] = e.Schedule
		return labels
	}
	labels["host"], labels["area"] = cmp.Or(e.IP, e.ID), strconv.Itoa(e.Cloud)
	return labels
}
