package why_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"drover/internal/test/harness"
)

// TestLastWordsOfALog: of a daemon that writes its own log, the end of that log is told with its end, as far as the
// account of the process may read it: an agent that is root lends nobody its eyes.
func TestLastWordsOfALog(t *testing.T) {
	s := harness.Start(t, binaries.drover)
	for name, told := range map[string]bool{"readable": true, "roots": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := newSubject(t, s, name, "plain")
			log := filepath.Join(o.dir, "app.log")
			o.script("app.log", "began\nFATAL: the disk is full\n", 0o600)
			if told {
				if err := os.Chown(log, 65534, 65534); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.Chown(o.dir, 65534, 65534); err != nil {
				t.Fatal(err)
			}
			o.spec["process_name"], o.spec["user"] = "sleep", "nobody"
			o.compat()["log_path"] = "app.log"
			o.spec["start"] = o.once("sleep 1000 >/dev/null 2>&1 & echo $! >oddd.pid")
			o.does("start", true)
			harness.Signal(t, o.pid(), syscall.SIGKILL)
			a := o.names("killed-by-signal", wrong)
			e := o.AwaitEvents(1, "exited")[0]
			output, _ := e["output"].(string)
			if got := strings.Contains(a.Out, "FATAL: the disk is full"); got != told {
				t.Errorf("it says:\n%s", a.Out)
			}
			if got := strings.Contains(output, "FATAL: the disk is full"); got != told {
				t.Errorf("the event says %q", output)
			}
		})
	}
}
