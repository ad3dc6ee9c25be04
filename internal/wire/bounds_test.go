package wire_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	"drover/internal/process"
	"drover/internal/wire"
)

// many returns a text with something repeated until it has a size.
func many(begin, part, end string, size int) []byte {
	n := max(1, (size-len(begin)-len(end))/(len(part)+1))
	return []byte(begin + strings.TrimSuffix(strings.Repeat(part+",", n), ",") + end)
}

// bombs are reports that would take far more memory than they have bytes.
func bombs(size int) map[string][]byte {
	return map[string][]byte{
		"events":    bytes.ReplaceAll(many(`{"version":1},`, `{}`, ``, size), []byte(","), []byte("\n")),
		"no events": bytes.Repeat([]byte("\n"), size),
		"states":    many(`{"version":1,"observed":[`, `{}`, `]}`, size),
		"outcomes":  many(`{"version":1,"progress":[`, `{"outcome":{}}`, `]}`, size),
		"questions": many(`{"version":1,"open":[`, `""`, `]}`, size),
		"runs":      many(`{"version":1,"observed":[{"status":{"runs":[`, `{}`, `]}}]}`, size),
		"causes":    many(`{"version":1,"observed":[{"status":{"further":[`, `{}`, `]}}]}`, size),
		"scores":    many("{}\n"+`{"breach":{"scores":[`, `{}`, `]}}`, size),
		"evidence":  many("{}\n"+`{"cause":{"evidence":[`, `""`, `]}}`, size),
		"records":   many(`{"version":1,"hello":{"disk":{"records":{`, `"":{}`, `}}}}`, size),
		"twice":     many(`{"version":1,"OBSERVED":[],"observed":[`, `{}`, `]}`, size),
		"nested": []byte(`{"version":1,"observed":[{"spec":{"labels":` + strings.Repeat(`[`, size/2) +
			strings.Repeat(`]`, size/2) + `}}]}`),
		"files":        many(`{"version":1,"observed":[{"spec":{"config_files":[`, `{}`, `]}}]}`, size),
		"codes":        many(`{"version":1,"observed":[{"spec":{"restart":{"never_on":[`, `0`, `]}}}]}`, size),
		"signals":      many(`{"version":1,"observed":[{"spec":{"stop_signals":[`, `"HUP"`, `]}}]}`, size),
		"groups":       many(`{"version":1,"observed":[{"spec":{"groups":[`, `""`, `]}}]}`, size),
		"hidden":       many(`{"version":1,"place":"\"","observed":[`, `{}`, `]}`, size),
		"half a text":  many("{}\n\"\n"+`{"breach":{"scores":[`, `{}`, `]}}`, size),
		"other fields": many(`{"version":1,"x":[`, `{"a":{}}`, `]}`, size),
	}
}

// TestAReportIsCountedBeforeItIsRead: whatever an agent sends, reading it takes no more memory than one of the size
// may.
func TestAReportIsCountedBeforeItIsRead(t *testing.T) {
	for _, size := range []int{wire.MaxReport, wire.MaxReport / 16} {
		for name, data := range bombs(size) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			r, err := wire.ReadReport(data)
			if err == nil { // its events are decoded, too
				events := make([]process.Event, len(r.Events))
				for i, line := range r.Events {
					_ = json.Unmarshal(line, &events[i])
				}
			}
			runtime.ReadMemStats(&after)
			taken := int64(after.TotalAlloc - before.TotalAlloc)
			if most := min(wire.Weight(data), wire.MaxWeight) + 1<<20; taken > most {
				t.Errorf("%s: %d bytes took %d of memory, at most %d were expected", name, len(data), taken, most)
			}
			if err == nil && size == wire.MaxReport {
				t.Errorf("%s: it was read", name)
			}
		}
	}
	for name, data := range map[string][]byte{
		"too large": many(`{"version":1,"open":[`, `"`+strings.Repeat("x", 1000)+`"`, `]}`,
			wire.MaxReport+1e4),
		"more entries than agents": bytes.Repeat([]byte("{}\n"), 1002),
	} {
		if _, err := wire.ReadReport(data); err == nil {
			t.Errorf("%s: it was read", name)
		}
	}
	for name, data := range map[string][]byte{
		"receipt":  many(`{"version":1,"answers":{`, `"a":{}`, `}}`, 2<<20),
		"accepted": many(`{"version":1,"accepted":[`, `""`, `]}`, 2<<20),
		"refused":  many(`{"version":1,"refused":{`, `"a":""`, `}}`, 2<<20),
	} {
		if _, err := wire.ReadReceipt(data); err == nil {
			t.Errorf("%s: it was read", name)
		}
	}
}

// TestWhatAgentsTellIsRead: the largest reports that there are.
func TestWhatAgentsTellIsRead(t *testing.T) {
	spec := &process.Spec{Labels: map[string]string{"l": strings.Repeat("x", wire.MaxSpec)}}
	full := wire.Report{Version: 1}
	for i := range 120 {
		id := process.ID{Namespace: "n", Name: fmt.Sprint(i)}
		status := process.Status{
			Message: strings.Repeat("m", 500), Further: make([]process.Cause, 4),
			Runs: make([]process.Run, 10), Config: make([]process.Drift, 10),
		}
		full.Observed = append(full.Observed, wire.Observation{Process: id, Status: status})
	}
	full.Observed[119].Spec = spec
	busy := wire.Report{Version: 1}
	for i := range 500 {
		e := process.Event{
			Stream: "s", Seq: uint64(i), Output: strings.Repeat("\n", 500),
			Breach: &process.Breach{Scores: make([]process.Score, 10)},
		}
		line, _ := json.Marshal(e)
		busy.Events = append(busy.Events, line)
		busy.Open = append(busy.Open, strings.Repeat("i", 60))
	}
	home := wire.Report{Version: 1, Hello: &wire.Hello{
		Disk:   &wire.Disk{Records: wire.Records{}},
		Groups: map[string]string{},
	}}
	for i := range 10_000 {
		namespace := fmt.Sprintf("GSEKIT_BIZ_%d", i%1000)
		home.Hello.Disk.Records[process.ID{Namespace: namespace, Name: fmt.Sprintf("process-%d", i)}] = uint64(i)
		home.Hello.Groups[namespace] = strings.Repeat("d", 64)
	}
	for name, r := range map[string]wire.Report{"states": full, "events": busy, "an introduction": home} {
		data, err := wire.EncodeReport(r, r.Events)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := wire.ReadReport(data); err != nil || !slices.EqualFunc(got.Events, r.Events, bytes.Equal) {
			t.Errorf("%s in %d bytes: %v", name, len(data), err)
		}
	}
	if _, err := wire.ReadReport([]byte(`{"version":2}`)); err == nil {
		t.Error("a newer report was read")
	}
}
