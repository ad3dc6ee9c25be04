package alarm_test

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"drover/internal/process"
	"drover/internal/server/alarm"
)

func event(kind process.EventKind, name string, at int64) alarm.Event {
	return alarm.Event{
		Event: process.Event{Kind: kind, Process: process.ID{Namespace: "nodeman", Name: name}, At: at},
		Cloud: 0, IP: "127.0.0.1",
	}
}

func of(t *testing.T, e alarm.Event) alarm.Alarm {
	t.Helper()
	a, ok := alarm.Of(e)
	if !ok {
		t.Fatalf("%s is no alarm", e.Kind)
	}
	return a
}

// TestTheFormOfGSE compares with a record as receivers of GSE's process events know it.
func TestTheFormOfGSE(t *testing.T) {
	message := alarm.Fold([]alarm.Alarm{of(t, event(process.EventRelaunched, "bkmonitorbeat", 1619171000000))})
	body, err := message.Encode()
	if err != nil {
		t.Fatal(err)
	}
	var got any
	if err := json.Unmarshal(body, &got); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"data_id": 1100008.0, "data": []any{map[string]any{
		"event_name": "process_restart_success", "target": "127.0.0.1|0", "timestamp": 1619171000000.0,
		"dimension": map[string]any{
			"bk_target_cloud_id": "0", "bk_target_ip": "127.0.0.1", "process_group_id": "nodeman",
			"process_index": "nodeman:bkmonitorbeat", "process_name": "bkmonitorbeat",
		},
		"event": map[string]any{"content": "check bkmonitorbeat not running, and restart it success"},
	}}}
	if diff := cmp.Diff(any(want), got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestTheFiveNamesOfGSE(t *testing.T) {
	for kind, name := range map[process.EventKind]string{
		process.EventRelaunched:     "process_restart_success",
		process.EventRelaunchFailed: "process_restart_failed",
		process.EventGivenUp:        "process_cancel_restart",
		process.EventBreach:         "process_resource_limit_exceed",
		process.EventGroupBreach:    "process_group_resource_limit_exceed",
	} {
		e := event(kind, "p", 1)
		e.Cause, e.ReportID = process.Cause{ID: process.CauseSignal, Text: "because"}, 7
		a := of(t, e)
		if a.Name != name || a.ReportID != 7 || !strings.HasSuffix(a.Event.Content, "because") ||
			a.Event.Cause != process.CauseSignal {
			t.Errorf("%s: %+v, want the name %s, the report id and the cause", kind, a, name)
		}
	}
	if _, ok := alarm.Of(event(process.EventStarted, "p", 1)); ok {
		t.Error("a start that somebody asked for is no alarm")
	}
}

func TestRepetitionsAreCountedAndTheLatestIsTold(t *testing.T) {
	var alarms []alarm.Alarm
	for i := range 5 {
		alarms = append(alarms, of(t, event(process.EventRelaunched, "p", int64(i))))
	}
	alarms = append(alarms, of(t, event(process.EventGivenUp, "p", 9)))
	got := alarm.Fold(alarms).Data
	if len(got) != 2 || got[0].Count != 5 || got[0].Timestamp != 4 || got[1].Count != 0 {
		t.Errorf("%+v: want five restarts as one entry, and the end of them", got)
	}
}

func TestAStormIsOneEntryANameAndNamespace(t *testing.T) {
	var alarms []alarm.Alarm
	for i := range 1000 {
		alarms = append(alarms, of(t, event(process.EventRelaunched, fmt.Sprintf("p%d", i), int64(i))))
		if i%2 == 0 {
			alarms = append(alarms, of(t, event(process.EventRelaunchFailed, fmt.Sprintf("p%d", i), int64(i))))
		}
	}
	got := alarm.Fold(alarms).Data
	total := 0
	for _, a := range got {
		total += a.Count
	}
	if len(got) != 2 || total != 1500 {
		t.Fatalf("%d entries that count %d events: want 2 that count 1500", len(got), total)
	}
	if want := "1000 processes of nodeman, 1000 events; the last one: p999 on 127.0.0.1|0"; !strings.HasPrefix(
		got[1].Event.Content, want) {
		t.Errorf("%q: want it to begin with %q", got[1].Event.Content, want)
	}
}

// TestTheDocumentTellsThem: docs/alarms.md has a row for every alarm, and its example is a message as it is sent.
func TestTheDocumentTellsThem(t *testing.T) {
	data, err := os.ReadFile("../../../docs/alarms.md")
	if err != nil {
		t.Fatal(err)
	}
	text := string(data)
	for _, kind := range alarm.Kinds() {
		a, ok := alarm.Of(alarm.Event{Event: process.Event{Kind: kind}})
		if row := fmt.Sprintf("| `%s` | `%s` |", a.Name, kind); !ok || !strings.Contains(text, row) {
			t.Errorf("the document has no row %q", row)
		}
	}
	n := 0
	for _, severity := range []string{"critical", "warning", "notice"} {
		n += strings.Count(text, "` | "+severity+" | ")
	}
	if n != len(alarm.Kinds()) {
		t.Errorf("the document has %d alarms, want %d", n, len(alarm.Kinds()))
	}
	_, rest, _ := strings.Cut(text, "```json\n")
	example, _, _ := strings.Cut(rest, "```")
	var m alarm.Message
	d := json.NewDecoder(strings.NewReader(example))
	d.DisallowUnknownFields()
	if err := d.Decode(&m); err != nil {
		t.Fatalf("the example: %v", err)
	}
	again, err := json.MarshalIndent(m, "", "  ")
	if err != nil || string(again)+"\n" != example {
		t.Errorf("the example is not all that is sent: %v\n%s", err, again)
	}
}
