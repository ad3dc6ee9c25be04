package facts

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"drover/internal/agent/procfs"
	"drover/internal/wire"
)

// TestLoad: a load is reported if it has changed by a percent, with an introduction, and now and then.
func TestLoad(t *testing.T) {
	root := t.TempDir()
	busy, idle := 0, 0
	var l loads
	measure := func(moreBusy, moreIdle, free int) {
		t.Helper()
		busy, idle = busy+moreBusy, idle+moreIdle
		for name, text := range map[string]string{
			"stat":    fmt.Sprintf("cpu  %d 0 0 %d 0 0 0 0 7 0\ncpu0 1 2 3 4\n", busy+100, idle),
			"meminfo": fmt.Sprintf("MemTotal: 1000 kB\nMemFree: 1 kB\nMemAvailable: %d kB\n", free),
		} {
			if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		l.measure(procfs.New(root))
	}
	want := func(introduces bool, want *wire.Load) {
		t.Helper()
		got := l.report(introduces)
		if (got == nil) != (want == nil) || got != nil && *got != *want {
			t.Errorf("reported %+v, want %+v", got, want)
		}
	}
	measure(0, 0, 1000)
	want(true, nil) // one look is not a load
	measure(25, 75, 600)
	want(false, &wire.Load{CPU: 250, Memory: 400})
	want(false, nil)
	want(true, &wire.Load{CPU: 250, Memory: 400})
	measure(255, 745, 600) // half a percent more
	want(false, nil)
	measure(26, 74, 600)
	want(false, &wire.Load{CPU: 260, Memory: 400})
	measure(26, 74, 589)
	want(false, &wire.Load{CPU: 260, Memory: 411})
	for range mostUntold - 1 {
		measure(26, 74, 589)
		want(false, nil)
	}
	measure(26, 74, 589) // a report may have been lost
	want(false, &wire.Load{CPU: 260, Memory: 411})
	measure(-26, -74, 589) // counters that go back, as after a migration
	want(false, nil)
	measure(100, 0, 2000)
	want(false, &wire.Load{CPU: 1000, Memory: 0})
}

func TestLoadWithoutFigures(t *testing.T) {
	var l loads
	for range 2 {
		l.measure(procfs.New(t.TempDir()))
	}
	if got := l.report(true); got != nil {
		t.Errorf("reported %+v", got)
	}
}
