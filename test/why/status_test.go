package why_test

import (
	"crypto/md5"
	"fmt"
	"os"
	"regexp"
	"testing"
	"time"

	"drover/internal/test/harness"
)

// TestStatus: what `drover status` says of a process is true of its kind, and names all that is wrong with it.
func TestStatus(t *testing.T) {
	s := harness.Start(t, binaries.drover)
	status := func(o *subject) string {
		return harness.Finish(t, "", os.Environ(), binaries.drover, "status", "--data-dir", s.DataDir, o.Namespace+"/"+
			o.Name).Out
	}
	says := func(t *testing.T, text string, lines ...string) {
		t.Helper()
		for _, line := range lines {
			if !regexp.MustCompile(`(?m)^ *` + line + `$`).MatchString(text) {
				t.Errorf("it has no line %q:\n%s", line, text)
			}
		}
	}
	t.Run("periodic", func(t *testing.T) {
		t.Parallel()
		o := periodic(t, s, "by-timetable", "sleep 1000; true")
		o.spec["schedule"] = harness.Object{"cron": "0 0 1 1 *"}
		o.does("start", true)
		text := status(o)
		says(t, text, "Hosted: yes, started by its timetable", `Process: \d+ /bin/sh -c sleep 1000; true`)
		o.does("kill", false)
	})
	t.Run("single run", func(t *testing.T) {
		t.Parallel()
		o := newSubject(t, s, "once", "plain")
		o.spec["once"] = true
		o.does("start", true)
		says(t, status(o), "Hosted: yes, a single run: drover does not relaunch it")
	})
	t.Run("several causes", func(t *testing.T) {
		t.Parallel()
		o := newSubject(t, s, "several", "plain")
		o.spec["health"] = harness.Object{"exec": "echo no; exit 1", "every": "1s", "failures": 2}
		o.script("some.conf", "port = 1\n", 0o644)
		o.spec["config_files"] = []any{harness.Object{
			"path": o.dir + "/some.conf",
			"md5":  fmt.Sprintf("%x", md5.Sum([]byte("port = 2\n"))),
		}}
		o.does("start", true)
		o.shows(o.names("unhealthy", wrong), "also, for", "some.conf", "[config-drift]")
		says(t, status(o), `Hosted: yes, relaunched if it exits`, `Cause: unhealthy, for \d+s`,
			`Also: .*some\.conf .* \[config-drift\], for \d+s`)
		// The time since when it is so is not renewed by the next failure.
		since := func() (failures int, since string) {
			p := o.Status()
			return int(p["health"].(harness.Object)["failures"].(float64)),
				p["cause"].(harness.Object)["since"].(string)
		}
		first, began := since()
		harness.Eventually(t, "more failures", func() bool {
			more, _ := since()
			return more > first+1
		})
		if _, now := since(); now != began {
			t.Errorf("it is unhealthy since %s, and a moment later since %s", began, now)
		}
		if at, err := time.Parse(time.RFC3339Nano, began); err != nil || time.Since(at) < time.Second {
			t.Errorf("it is unhealthy since %s (%v)", began, err)
		}
	})
}
