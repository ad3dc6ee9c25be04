package alarm_test

import (
	"fmt"
	"maps"
	"testing"
	"time"

	"drover/internal/process"
	"drover/internal/server/alarm"
)

// TestAlerts: what lasts fires until the event that ends it, under the same labels; a moment fires for a short time.
func TestAlerts(t *testing.T) {
	now := time.UnixMilli(1_000_000).UTC()
	got := alarm.Alerts([]alarm.Event{
		event(process.EventRelaunched, "cart", 1000), event(process.EventGivenUp, "cart", 2000),
		event(process.EventUnhealthy, "shop", 3000), event(process.EventHealthy, "shop", 4000),
		event(process.EventGivenUp, "cart", 5000), event(process.EventReloaded, "cart", 6000),
	}, now)
	type row struct{ name, process string }
	at := map[row]alarm.Alert{}
	for _, a := range got {
		if a.EndsAt.Before(a.StartsAt) {
			t.Errorf("%v ends before its beginning", a)
		}
		at[row{a.Labels["alertname"], a.Labels["process"]}] = a
	}
	for where, want := range map[row][2]time.Time{
		{"drover-relaunched", "cart"}: {time.UnixMilli(1000), now.Add(5 * time.Minute)},
		{"drover-given-up", "cart"}:   {time.UnixMilli(5000), now.Add(28 * 24 * time.Hour)},
		{"drover-unhealthy", "shop"}:  {time.UnixMilli(4000), time.UnixMilli(4000)},
	} {
		if a, ok := at[where]; !ok || !a.StartsAt.Equal(want[0]) || !a.EndsAt.Equal(want[1]) {
			t.Errorf("%v: %+v, want from %s to %s", where, a, want[0].UTC(), want[1].UTC())
		}
	}
	if a := at[row{"drover-given-up", "cart"}]; a.Labels["severity"] != "critical" || a.Labels["host"] != "127.0.0.1" ||
		a.Labels["namespace"] != "nodeman" || a.Annotations["summary"] == "" {
		t.Errorf("%+v", a)
	}
}

// TestAlertsOfSchedules: two schedules that fail with one process are two alerts, and each ends alone.
func TestAlertsOfSchedules(t *testing.T) {
	var events []alarm.Event
	for i, e := range []struct {
		kind process.EventKind
		of   string
	}{
		{process.EventScheduleFailed, "nightly"},
		{process.EventScheduleFailed, "weekly"},
		{process.EventScheduleRecovered, "nightly"},
	} {
		events = append(events, event(e.kind, "cart", int64(1000*(i+1))))
		events[i].Schedule = e.of
	}
	now := time.UnixMilli(9000)
	got := map[string]time.Time{}
	for _, a := range alarm.Alerts(events, now) {
		got[a.Labels["alertname"]+" "+a.Labels["schedule"]] = a.EndsAt
	}
	if len(got) != 2 || !got["drover-schedule-failed nightly"].Equal(time.UnixMilli(3000)) ||
		!got["drover-schedule-failed weekly"].After(now) {
		t.Errorf("the alerts end at %v", got)
	}
}

// TestAlertOfAScheduleEndsWithoutItsHost: a host may be gone, or have another address, when a run succeeds again.
func TestAlertOfAScheduleEndsWithoutItsHost(t *testing.T) {
	failed, recovered := event(process.EventScheduleFailed, "cart", 1000), event(process.EventScheduleRecovered, "cart", 2000)
	failed.Schedule, recovered.Schedule = "nightly", "nightly"
	recovered.IP, recovered.Cloud = "", 0
	now := time.UnixMilli(9000)
	begun, over := alarm.Alerts([]alarm.Event{failed}, now), alarm.Alerts([]alarm.Event{recovered}, now)
	if len(begun) != 1 || len(over) != 1 || !maps.Equal(begun[0].Labels, over[0].Labels) || over[0].EndsAt.After(now) {
		t.Errorf("%+v is ended by %+v", begun, over)
	}
	if both := alarm.Alerts([]alarm.Event{failed, recovered}, now); len(both) != 1 || both[0].EndsAt.After(now) {
		t.Errorf("at once they are %+v", both)
	}
}

// TestEveryEndedAlarmLasts: each event that ends alarms ends kinds that are alarms, and what lasts can be seen in a
// status.
func TestEveryEndedAlarmLasts(t *testing.T) {
	seen := map[process.EventKind]bool{}
	for _, end := range alarm.Endings() {
		for _, kind := range alarm.Ended(end) {
			seen[kind] = true
			if !alarm.Is(kind) || !alarm.Lasts(kind) {
				t.Errorf("%s ends %s, which is no lasting alarm", end, kind)
			}
		}
	}
	holding := &process.Status{
		Known: true, Hosted: true, Flapping: true, Config: []process.Drift{{}}, State: process.StateGivenUp,
		Further: []process.Cause{{ID: process.CauseRunFailed}}, Instance: process.Instance{PID: -1},
	}
	withheld := &process.Status{Known: true, Cause: process.Cause{ID: process.CauseBreakerOpen}}
	sick := &process.Status{Known: true, Instance: process.Instance{PID: 1}, Health: &process.Answer{Bad: true}}
	for _, kind := range alarm.Kinds() {
		if alarm.OnlyTold(kind) {
			if !alarm.Lasts(kind) {
				t.Errorf("nothing ends %s", kind)
			}
			delete(seen, kind)
		}
		if holds := alarm.Holds(kind, holding) || alarm.Holds(kind, sick) || alarm.Holds(kind, withheld); holds != seen[kind] {
			t.Errorf("%s: holds is %t, but lasts is %t", kind, holds, seen[kind])
		}
		if alarm.Holds(kind, nil) || alarm.Holds(kind, &process.Status{Known: true, Instance: process.Instance{PID: 1}}) {
			t.Errorf("%s holds for a process that is well or unknown", kind)
		}
	}
}

// TestAlertsOfRolloutsAndHosts: an alert about a rollout ends with it, whatever host it was told of, and that of a host
// names no process.
func TestAlertsOfRolloutsAndHosts(t *testing.T) {
	now := time.UnixMilli(9000)
	paused, done := event(process.EventRolloutPaused, "cart", 1000), event(process.EventRolloutDone, "cart", 2000)
	done.IP = ""
	list := alarm.Alerts([]alarm.Event{paused, done}, now)
	want := map[string]string{
		"alertname": "drover-rollout-paused", "severity": "warning", "namespace": "nodeman", "process": "cart",
	}
	if len(list) != 3 || !maps.Equal(list[0].Labels, want) || list[0].EndsAt.After(now) ||
		!list[2].EndsAt.After(now) {
		t.Errorf("the alerts of a rollout are %+v", list)
	}
	done.Ends = true
	if list = alarm.Alerts([]alarm.Event{done}, now); len(list) != 2 || list[0].EndsAt.After(now) {
		t.Errorf("an event that only ends alarms makes %+v", list)
	}
	away := event(process.EventHostAway, "", 1000)
	away.Process, away.IP, away.ID = process.ID{}, "", "web-1"
	list = alarm.Alerts([]alarm.Event{away}, now)
	want = map[string]string{"alertname": "drover-host-away", "severity": "warning", "host": "web-1", "area": "0"}
	if len(list) != 1 || !maps.Equal(list[0].Labels, want) || !list[0].EndsAt.After(now) ||
		list[0].Annotations["summary"] != "web-1: host-away" {
		t.Errorf("the alert of a host is %+v", list)
	}
}

// TestManyHostsAway: many hosts that are away become one entry, which speaks of hosts.
func TestManyHostsAway(t *testing.T) {
	var alarms []alarm.Alarm
	for i := range 60 {
		e := event(process.EventHostAway, "", 1000)
		e.Process, e.IP, e.ID = process.ID{}, "", fmt.Sprintf("web-%d", i)
		a, _ := alarm.Of(e)
		alarms = append(alarms, a)
	}
	got := alarm.Fold(alarms).Data
	if len(got) != 1 || got[0].Count != 60 || got[0].Event.Content != "60 hosts, 60 events; the last one: web-59: host-away" {
		t.Errorf("folded are %+v", got)
	}
}
