// Package alarm formats events as the alarms that programs around GSE have always received, and folds many events
// into a few alarms. It is pure: other packages decide who receives alarms, and deliver them.
package alarm

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"drover/internal/process"
)

// Event is an event and the host that it happened on.
type Event struct {
	process.Event
	Cloud int
	IP    string
	// ID names a host without an address.
	ID string
	// Ends tells that the event only ends alarms: the receiver does not get the alarm that the event is.
	Ends bool
}

func (e *Event) target() string { return e.IP + "|" + strconv.Itoa(e.Cloud) }

func (e *Event) host() string { return cmp.Or(e.IP, e.ID) }

// Message is one delivery, in the form of GSE's event channel.
type Message struct {
	DataID int64   `json:"data_id"`
	Data   []Alarm `json:"data"`
}

// Alarm is one entry of a message.
type Alarm struct {
	Name string `json:"event_name"`
	// Kind is the kind of the event, and Schedule the schedule of an alarm about one.
	Kind     process.EventKind `json:"-"`
	Schedule string            `json:"-"`
	// Host names the host of the alarm.
	Host      string    `json:"-"`
	Target    string    `json:"target"` // "ip|cloud"
	Timestamp int64     `json:"timestamp"`
	Dimension Dimension `json:"dimension"`
	Event     Content   `json:"event"`
	// Count is how many events the entry represents; 0 means one.
	Count int `json:"count,omitempty"`
	// ReportID is the alarm id of the process's spec (warn_report_policy.report_id).
	ReportID int64 `json:"report_id,omitempty"`
}

// Dimension identifies the process of an alarm. All values are strings on the wire.
type Dimension struct {
	Cloud string `json:"bk_target_cloud_id"`
	IP    string `json:"bk_target_ip"`
	// Group is the namespace, Index "namespace:name".
	Group string `json:"process_group_id"`
	Index string `json:"process_index"`
	Name  string `json:"process_name"`
}

// Content is the text of an alarm.
type Content struct {
	Content string `json:"content"`
	// Cause is the id of the cause, if it is known.
	Cause process.CauseID `json:"cause,omitempty"`
}

// dataID is the channel of process events in GSE.
const dataID = 1100008

// nameOf returns the receivers' name of an event's kind; empty if the kind is not an alarm. The first five names are
// GSE's, the others are drover's own.
func nameOf(kind process.EventKind) string {
	switch kind {
	case process.EventRelaunched:
		return "process_restart_success"
	case process.EventRelaunchFailed:
		return "process_restart_failed"
	case process.EventGivenUp:
		return "process_cancel_restart"
	case process.EventBreach:
		return "process_resource_limit_exceed"
	case process.EventGroupBreach:
		return "process_group_resource_limit_exceed"

	case process.EventFlapping:
		return "process_flapping"
	case process.EventUnhealthy:
		return "process_unhealthy"
	case process.EventDrifted:
		return "process_config_drifted"
	case process.EventRunFailed:
		return "process_run_failed"
	case process.EventRunMissed:
		return "process_run_missed"
	case process.EventBreakerOpened:
		return "process_breaker_opened"
	case process.EventScheduleFailed:
		return "process_schedule_failed"

	case process.EventRolloutPaused:
		return "rollout_paused"
	case process.EventRolloutHeld:
		return "rollout_held"
	case process.EventRolloutDone:
		return "rollout_done"
	case process.EventRolloutFailed:
		return "rollout_failed"
	case process.EventRolloutAborted:
		return "rollout_aborted"
	case process.EventHostAway:
		return "host_away"
	case process.EventHostBack:
		return "host_back"
	default:
		return ""
	}
}

// Kinds returns the kinds of events that are alarms.
func Kinds() []process.EventKind {
	return slices.DeleteFunc(process.EventKinds(), func(kind process.EventKind) bool { return nameOf(kind) == "" })
}

// Is reports whether events of a kind are alarms.
func Is(kind process.EventKind) bool { return nameOf(kind) != "" }

// Of returns the alarm of an event; ok is false if the event is not an alarm.
func Of(e Event) (a Alarm, ok bool) {
	name := nameOf(e.Kind)
	if name == "" {
		return Alarm{}, false
	}
	a = Alarm{
		Name: name, Kind: e.Kind, Schedule: e.Schedule, Host: e.host(), Target: e.target(), Timestamp: e.At,
		ReportID:  e.ReportID,
		Dimension: Dimension{Cloud: strconv.Itoa(e.Cloud), IP: e.IP, Group: e.Process.Namespace, Name: e.Process.Name},
		Event:     Content{Content: content(e), Cause: e.Cause.ID},
	}
	if e.Process != (process.ID{}) { // else the alarm is about the host
		a.Dimension.Index = e.Process.Namespace + ":" + e.Process.Name
	}
	return a, true
}

// content returns the text of an alarm. For a relaunch it uses GSE's words.
func content(e Event) string {
	name, why := cmp.Or(e.Process.Name, e.host()), e.Cause.Text
	switch e.Kind {
	case process.EventRelaunched:
		return with(fmt.Sprintf("check %s not running, and restart it success", name), why)
	case process.EventRelaunchFailed:
		return with(fmt.Sprintf("check %s not running, and restart it failed", name), why)
	case process.EventGivenUp:
		return with(fmt.Sprintf("check %s not running, and it will not be restarted any more", name), why)
	case process.EventBreach, process.EventGroupBreach:
		return with(fmt.Sprintf("%s exceeded a resource limit", name), why)
	default:
		return with(fmt.Sprintf("%s: %s", name, e.Kind), why)
	}
}

func with(text, why string) string {
	if why == "" {
		return text
	}
	return text + ": " + why
}

// maxEntries is the largest number of entries of a message.
const maxEntries = 50

// Fold makes one message of alarms, oldest first. Alarms of the same process, name and schedule become one entry, the
// latest, with a count. If more than 50 entries are left, the alarms of the same name and namespace become one entry
// without a process.
func Fold(alarms []Alarm) Message {
	entries := merge(alarms, func(a Alarm) any {
		return [5]string{a.Name, a.Target, a.Host, a.Dimension.Index, a.Schedule}
	},
		func(last Alarm, _ int) Alarm { return last })
	if len(entries) > maxEntries {
		entries = merge(entries, func(a Alarm) any { return [2]string{a.Name, a.Dimension.Group} }, storm)
	}
	return Message{DataID: dataID, Data: entries}
}

// storm returns the entry for alarms of many processes; last is the latest of them.
func storm(last Alarm, processes int) Alarm {
	if processes == 1 {
		return last
	}
	text := fmt.Sprintf("%d processes of %s, %d events; the last one: %s on %s: %s", processes, last.Dimension.Group,
		max(last.Count, 1), last.Dimension.Name, last.Target, last.Event.Content)
	if last.Dimension.Group == "" {
		text = fmt.Sprintf("%d hosts, %d events; the last one: %s", processes, max(last.Count, 1), last.Event.Content)
	}
	last.Target, last.Host, last.ReportID = "", "", 0
	last.Dimension = Dimension{Group: last.Dimension.Group}
	last.Event.Content = text
	return last
}

// merge makes one entry of all alarms with the same key, in the order of their last alarms.
func merge(alarms []Alarm, key func(Alarm) any, entry func(last Alarm, of int) Alarm) []Alarm {
	type heap struct {
		last      Alarm
		at, count int
		of        int
	}
	heaps := map[any]*heap{}
	for i, a := range alarms {
		h := heaps[key(a)]
		if h == nil {
			h = &heap{}
			heaps[key(a)] = h
		}
		h.last, h.at = a, i
		h.count += max(a.Count, 1)
		h.of++
	}
	ordered := make([]*heap, 0, len(heaps))
	for _, h := range heaps {
		ordered = append(ordered, h)
	}
	slices.SortFunc(ordered, func(a, b *heap) int { return cmp.Compare(a.at, b.at) })
	list := make([]Alarm, 0, len(ordered))
	for _, h := range ordered {
		if h.count > 1 {
			h.last.Count = h.count
		}
		list = append(list, entry(h.last, h.of))
	}
	return list
}

// Encode returns the message in the form of a delivery.
func (m Message) Encode() ([]byte, error) {
	data, err := json.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("cannot encode alarms: %w", err)
	}
	return data, nil
}
