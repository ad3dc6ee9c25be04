package lifecycle_test

import (
	"os/exec"
	"testing"

	"drover/internal/test/harness"
)

// TestRealDaemonsFromOutside: what Debian's own daemons have started without drover is found by its pid file, and taken
// over.
func TestRealDaemonsFromOutside(t *testing.T) {
	s := harness.Start(t, binaries.drover)
	for name, install := range map[string]func(*testing.T) daemon{
		"nginx": nginx, "redis-server": redis,
		"postgres": postgres, "haproxy": haproxy,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := install(t)
			user, dir := d.identity["user"].(string), d.identity["setup_path"].(string)
			start := exec.Command("su", user, "-s", "/bin/sh", "-c", d.control["start_cmd"].(string)+
				" >/dev/null 2>&1 </dev/null")
			start.Dir = dir
			if out, err := start.CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			var pid int
			harness.Eventually(t, "its pid file", func() bool {
				text, err := readFile(d.identity["pid_path"].(string))
				return err == nil && text != ""
			})
			pid = harness.ReadPID(t, d.identity["pid_path"].(string))
			p := &harness.Process{Server: s, Namespace: "outside", Name: name, Identity: d.identity, Control: d.control}
			if r := p.Query(); r.PID != pid {
				t.Errorf("query: %v, want pid %d", r.Item, pid)
			}
			p.Operate(0).Want(t, "start", 828)
			p.Operate(3).Want(t, "host", 0)
			p.Operate(1).Want(t, "stop", 0)
			harness.Eventually(t, "its end", func() bool { return !harness.Alive(pid) })
		})
	}
}
