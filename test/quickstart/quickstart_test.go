package quickstart_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"drover/internal/test/harness"
)

// story is what the script prints, with the two pids.
func story(daemon string) *regexp.Regexp {
	return regexp.MustCompile(`^1\. register ` + daemon + `
  error_code 0
2\. start it \(op_type 0\): 115 while it is handled, then 0
  task GSETASK:\S+: 115 0  \(success\)
  pid (\d+)
3\. kill -9 (\d+): it is hosted, so it is launched again
  pid (\d+)
4\. reload it \(op_type 8\): the pid stays
  task GSETASK:\S+:( 115)? 0  \(success\)
  pid (\d+)
5\. stop it \(op_type 1\)
  task GSETASK:\S+:( 115)? 0  \(success\)
6\. stop it again: 829, it is not running
  task GSETASK:\S+:( 115)? 829  \(no need to stop the process\(` + daemon + `\) that is not running\)
done
$`)
}

func script(t *testing.T, env ...string) harness.Finished {
	t.Helper()
	return harness.Finish(t, "", append(os.Environ(), env...),
		filepath.Join(harness.Root(), "examples", "quickstart.sh"))
}

// TestQuickstart runs examples/quickstart.sh: with nginx, where that is installed, and with the daemon of this
// repository.
func TestQuickstart(t *testing.T) {
	t.Parallel()
	s := harness.Start(t, binaries.drover)
	caller := []string{"DROVER_SERVER=" + s.URL, "DROVER_APP_CODE=" + harness.AppCode, "DROVER_APP_SECRET=" +
		harness.AppSecret}
	usual := "tickd"
	if _, err := exec.LookPath("nginx"); err == nil || exists("/usr/sbin/nginx") {
		usual = "nginx"
	}
	for _, c := range []struct {
		name, daemon string
		env          []string
	}{
		{"as it comes", usual, []string{"QUICKSTART_LISTEN=" + harness.FreeAddress(t)}},
		{"with tickd", "tickd", []string{"QUICKSTART_TICKD=1"}},
	} {
		// One after the other: without nginx they would be the same process.
		t.Run(c.name, func(t *testing.T) {
			r := script(t, append(caller, c.env...)...)
			parts := story(c.daemon).FindStringSubmatch(r.Out)
			if r.Code != 0 || parts == nil {
				t.Fatalf("exit code %d:\n%s%s", r.Code, r.Out, r.Errors)
			}
			if first, killed, second, reloaded := parts[1], parts[2], parts[3], parts[5]; first != killed ||
				second == first || reloaded != second {
				t.Errorf("pid %s was started, %s killed, %s launched, %s reloaded", first, killed, second, reloaded)
			}
			data := s.Call("sync_proc_status", harness.Object{"meta": harness.Object{"namespace": "quickstart"}})
			if data["count"] != 0.0 {
				t.Errorf("the script left %v behind", data)
			}
		})
	}
}

// TestQuickstartSaysWhatIsWrong: the two mistakes that a newcomer makes.
func TestQuickstartSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	s := harness.Start(t, binaries.drover)
	for _, c := range []struct {
		env  []string
		text string
	}{
		{[]string{"DROVER_APP_SECRET="}, "has printed into DROVER_APP_SECRET"},
		{[]string{"DROVER_APP_SECRET=x", "DROVER_SERVER=http://127.0.0.1:1"}, "no drover at http://127.0.0.1:1"},
		{
			[]string{"DROVER_APP_SECRET=x", "DROVER_SERVER=" + s.URL, "DROVER_APP_CODE=" + harness.AppCode},
			"APP Secret verification failed",
		},
	} {
		if r := script(t, append(c.env, "QUICKSTART_TICKD=1")...); r.Code == 0 || !strings.Contains(r.Errors, c.text) {
			t.Errorf("%q: exit code %d, says %q, want %q", c.env, r.Code, r.Errors, c.text)
		}
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
