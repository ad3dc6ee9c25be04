package supervisor_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"drover/internal/process"
)

// TestRelaunchWaitsForAFileSystemThatHangs: nobody can tell whether a successor runs, so none is started; nothing is
// counted, it is told once, and the process is back when the file system is.
func TestRelaunchWaitsForAFileSystemThatHangs(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.do(process.Start, "a", r.spec("a"))
		r.Hang(file("a"), true)
		r.Kill(file("a"))
		r.pass(10 * time.Minute)
		got := r.state("a", "backoff", true)
		if got.Cause.ID != process.CauseFileHangs || got.Restarts != 0 ||
			!strings.Contains(got.Message, "attempt 1 of 4") {
			t.Errorf("status %+v", got)
		}
		r.ran("start a")
		r.kill()
		r.begin()
		r.pass(time.Minute)
		r.state("a", "backoff", true)
		told := r.sink.history(id("a"))
		r.Hang(file("a"), false)
		r.pass(time.Minute)
		if got := r.state("a", "running", true); got.Flapping || got.Restarts != 1 {
			t.Errorf("status %+v", got)
		}
		r.ran("start a", "start a")
		if d := cmp.Diff([]string(nil), told); d != "" {
			t.Errorf("events after a restart of the agent (-want +got):\n%s", d)
		}
	})
}

// TestOperationsDoNothingWhereAFileSystemHangs: a start could be the second one, and a stop not be needed.
func TestOperationsDoNothingWhereAFileSystemHangs(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		s := r.spec("a")
		r.Hang(file("a"), true)
		for _, op := range []process.Op{process.Start, process.Stop, process.Restart} {
			item := r.submit(op, "a", s)
			r.pass(time.Minute)
			o, _ := r.sink.outcome(item)
			if o.Fault != process.Failed || o.Cause != process.CauseFileHangs ||
				!strings.HasSuffix(o.Text, file("a")+" did not answer") {
				t.Errorf("%s: %+v", op, o)
			}
		}
		r.ran()
	})
}
