package processfile_test

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"drover/internal/test/harness"
)

// TestNameIsNoProof: a daemon without a pid file starts only beside the flag while another process of its name runs in
// its directory, and its restart does not end that process.
func TestNameIsNoProof(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	harness.Sleeper(t, p.Dir, "uniqd")
	foreign := exec.Command(harness.Sleeper(t, t.TempDir(), "uniqd"), "1000")
	foreign.Dir = p.Dir
	harness.Begin(t, foreign)
	file := func(number string) string {
		return `
namespace: shop
defaults: {hosts: ["0:127.0.0.1"], user: root, directory: DIR, ready: {alive: 0s}}
processes:
  d:
    start: "DIR/uniqd ` + number + ` >/dev/null 2>&1 &"
    process_name: uniqd
`
	}
	apply := func(number string, flags ...string) harness.Finished {
		return p.CLI(append([]string{"apply", "-f", p.Write("file.yaml", file(number)), "--yes"}, flags...)...)
	}
	if r := apply("1000"); r.Code == 0 || !strings.Contains(r.Out+r.Errors, fmt.Sprintf("pid %d", foreign.Process.Pid)) {
		t.Fatalf("beside a foreign process: %+v", r)
	}
	if r := apply("1000", "--beside"); r.Code != 0 {
		t.Fatalf("with --beside: %+v", r)
	}
	was := p.PID("d")
	if was == foreign.Process.Pid || was <= 0 {
		t.Fatalf("it runs as pid %d", was)
	}
	if r := apply("1001"); r.Code != 0 {
		t.Fatalf("a change: %+v", r)
	}
	if is := p.PID("d"); is == was || is == foreign.Process.Pid || is <= 0 {
		t.Errorf("it runs as pid %d after %d", is, was)
	}
	if r := p.CLI("stop", "shop/d", "--yes"); r.Code != 0 {
		t.Errorf("a stop: %+v", r)
	}
	if _, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", foreign.Process.Pid)); err != nil {
		t.Errorf("the foreign process: %v", err)
	}
}
