package host_test

import (
	"strings"
	"testing"
	"time"

	"drover/internal/agent/instance"
	"drover/internal/agent/locate"
	"drover/internal/agent/procfs"
	"drover/internal/agent/record"
	"drover/internal/test/harness"
)

// TestLookAtAFileSystemThatHangs: it ends, says why, and does not take the process for gone; one that is known to run
// needs no file.
func TestLookAtAFileSystemThatHangs(t *testing.T) {
	dir := t.TempDir()
	h := open(t, t.TempDir())
	who := start(t, harness.Sleeper(t, dir, "daemon"))
	file := pidFile(t, who.PID)
	hang := make(chan struct{})
	over := make(chan struct{})
	h.SetFind(func(procfs.FS, locate.Query) locate.Result {
		<-hang
		close(over)
		return locate.Result{}
	}, 50*time.Millisecond)
	seen := h.Look(spec(dir, "daemon", file), record.Runtime{}, instance.Ownership{})
	if seen.Alive() || !seen.Unsure() || !strings.HasPrefix(seen.Note, file+" did not answer") {
		t.Errorf("%+v", seen)
	}
	if seen := h.Look(spec(dir, "daemon", file), record.Runtime{Process: &who.Identity},
		instance.Ownership{}); !seen.Alive() {
		t.Errorf("known to run: %+v", seen)
	}
	close(hang)
	<-over
}
