package processfile_test

import (
	"strings"
	"testing"
)

// TestPruneBesideAFailure: what the file no longer has is removed, although another process of the file does not start.
// A job that has failed does not run a second time for that.
func TestPruneBesideAFailure(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	file := func(other string) string {
		return p.Write("file.yaml", `
namespace: shop
defaults: {hosts: ["0:127.0.0.1"], user: root, directory: DIR, ready: {alive: 0s}}
processes:
  keep: {run: sleep 1000}
  `+other+"\n")
	}
	apply := func(other string, code int, flags ...string) string {
		t.Helper()
		r := p.CLI(append([]string{"apply", "-f", file(other), "--yes"}, flags...)...)
		if r.Code != code {
			t.Fatalf("apply of %s: %+v, want exit code %d", other, r, code)
		}
		return r.Errors
	}
	gone := func(what string) {
		t.Helper()
		if r := p.CLI("ps", "shop/gone"); !strings.Contains(r.Errors, "no process matches") {
			t.Errorf("%s: %+v", what, r)
		}
	}
	apply("gone: {run: sleep 1000}", 0)
	apply(`fails: {run: /no/such, ready: {alive: 1s}}`, 7, "--prune")
	gone("beside a start that failed")

	apply("gone: {run: sleep 1000}", 0, "--prune")
	said := apply(`job: {run: "echo run >>runs; exit 1", once: true, ready: {alive: 1s}}`, 7, "--prune")
	if n := p.count("runs"); n != 1 {
		t.Errorf("the job has run %d times", n)
	}
	if !strings.Contains(said, "stopped, and not removed: apply the file again") {
		gone("beside a job that failed")
	}
}
