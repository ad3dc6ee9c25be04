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

// TestRenamed: a process that has another name in its file starts once the former one has ended: both need the same
// lock.
func TestRenamed(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	apply := func(name string) {
		t.Helper()
		file := p.Write("file.yaml", `
namespace: shop
defaults: {hosts: ["0:127.0.0.1"], user: root, directory: DIR, ready: {alive: 1s}}
processes:
  `+name+`:
    run: |
      mkdir lock || { echo beside >>starts; exit 1; }
      echo alone >>starts
      trap 'sleep 2; rmdir lock; exit 0' TERM
      while :; do sleep 0.1; done
`)
		if r := p.CLI("apply", "-f", file, "--prune", "--yes"); r.Code != 0 {
			t.Fatalf("apply of %s: %+v", name, r)
		}
	}
	apply("former")
	apply("latter")
	if got := p.read("starts"); got != "alone\nalone" {
		t.Errorf("the starts were %q, want two that were alone", got)
	}
}
