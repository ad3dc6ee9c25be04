package audit

import (
	"strings"
	"testing"
	"time"

	"drover/internal/server/store"
)

// TestReadsAreCounted: a caller that reads all the time writes few rows, and the log still tells how often it has read.
func TestReadsAreCounted(t *testing.T) {
	var r reads
	now := time.Unix(1_700_000_000, 0)
	written, told := 0, 0
	for range 3600 * 100 { // 100 a second for an hour
		now = now.Add(10 * time.Millisecond)
		if r.count(now, store.AuditRow{App: "a", Action: "get"}) {
			written++
		}
		for _, row := range r.due(now, false) {
			if !strings.Contains(row.Message, " more reads since ") {
				t.Fatalf("%q", row.Message)
			}
			told++
		}
	}
	if written != readBurst+7200-1 && written != readBurst+7200 || told < 58 || told > 61 {
		t.Errorf("%d rows, and %d that count", written, told)
	}
	if !r.count(now, store.AuditRow{App: "b"}) {
		t.Error("another caller has no row")
	}
	if rows := r.due(now, true); len(rows) != 1 {
		t.Errorf("%d rows at the end", len(rows))
	}
	if r.due(now.Add(time.Hour), false); len(r.of) != 0 {
		t.Errorf("%d callers are remembered", len(r.of))
	}
}
