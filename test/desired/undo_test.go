package desired_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"drover/internal/test/harness"
)

// TestUndoAndAHostThatCameLate: a host that came to match after the apply goes back, too.
func TestUndoAndAHostThatCameLate(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.join(first, "role=web")
	f.CLI("apply", "-f", f.file("one", "leave: stop"), "--yes")
	f.CLI("apply", "-f", f.file("two", "leave: stop"), "--yes", "--batch", "2", "--bake", "1s")
	id := strings.Fields(f.CLI("rollout", "list", "-o", "name"))[0]
	f.join(late, "role=web")
	f.started("the release on the host that came late", first+" one", first+" two", late+" two")
	f.CLI("rollout", "undo", id, "--yes")
	f.started("the former release on both", first+" one", first+" two", late+" two", first+" one", late+" one")
	harness.Eventually(t, "no differences from the former file", func() bool {
		code, _, _ := f.drover("drift", "shop/web")
		return code == 0
	})
}

// TestUndoAndAHostThatGoesAway: a host that has the release and is away during the undo gets the former release when it
// returns.
func TestUndoAndAHostThatGoesAway(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.join(first, "role=web")
	agent := f.join(late, "role=web")
	f.CLI("apply", "-f", f.file("one", "leave: stop"), "--yes")
	f.CLI("apply", "-f", f.file("two", "leave: stop"), "--yes", "--batch", "1", "--bake", "1s")
	id := strings.Fields(f.CLI("rollout", "list", "-o", "name"))[0]
	agent.Kill()
	harness.Eventually(t, "the host to be away", func() bool {
		return strings.Contains(f.CLI("agents", late, "--no-headers"), "away")
	})
	f.CLI("rollout", "undo", id, "--yes")
	before := f.starts()
	_, ip, _ := strings.Cut(late, ":")
	f.StartAgent(ip, "--facts-dir", "/nonexistent")
	f.started("the former release on the host that is back", before, late+" two", late+" one")
}

// TestRemovalOnAHostThatIsAway: a host that was away while an undo or a file without the process removed it gives the
// process up when it returns. Until then drift names it.
func TestRemovalOnAHostThatIsAway(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.join(first, "role=web")
	agent := f.join(late, "role=web")
	for _, by := range []string{"prune", "undo"} {
		path := filepath.Join(f.Dir, by+".yaml")
		must(t, os.WriteFile(path, fmt.Appendf(nil, "namespace: %s\nprocesses:\n  web: {run: ./web, directory: %s, "+
			"environment: {RELEASE: %s}, hosts: [%q, %q]}\n", by, f.dir, by, first, late), 0o600))
		f.CLI("apply", "-f", path, "--yes", "--batch", "2", "--bake", "1s")
	}
	id := strings.Fields(f.CLI("rollout", "list", "-o", "name"))[0]
	agent.Kill()
	harness.Eventually(t, "the host to be away", func() bool {
		return strings.Contains(f.CLI("agents", late, "--no-headers"), "away")
	})
	empty := filepath.Join(f.Dir, "empty.yaml")
	must(t, os.WriteFile(empty, []byte("namespace: prune\nprocesses: {}\n"), 0o600))
	f.CLI("rollout", "undo", id, "--yes")
	code, out, errs := f.drover("apply", "-f", empty, "--prune", "--yes")
	if code != 7 || strings.Count(errs, "hosts that were away follow within a minute of their return") == 0 {
		t.Errorf("apply with a host that is away: exit code %d\n%s%s", code, out, errs)
	}
	if out := f.CLI("ps", "prune/web", "--no-headers"); strings.Contains(out, first) {
		t.Errorf("the process is left on the host that is there: %s", out)
	}
	for _, namespace := range []string{"undo", "prune"} {
		code, out, errs := f.drover("drift", namespace+"/web")
		if code != 3 || strings.Count(out, "has removed the process, and the host still has it") != 1 {
			t.Errorf("drift while it is away: exit code %d\n%s%s", code, out, errs)
		}
	}
	_, ip, _ := strings.Cut(late, ":")
	f.StartAgent(ip, "--facts-dir", "/nonexistent")
	harness.Eventually(t, "the processes to be gone", func() bool {
		return f.CLI("ps", "--no-headers") == ""
	})
}

// TestFileAfterAHand: an apply of what a host has already makes the file count there, and an undo that brings a change
// by hand back does not.
func TestFileAfterAHand(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.join(first, "role=web")
	f.join(late, "role=web")
	file := func(release string) string {
		path := f.file(release, "leave: keep")
		text, err := os.ReadFile(path)
		must(t, err)
		must(t, os.WriteFile(path, []byte(strings.ReplaceAll(string(text), "{select: role=web}", `["`+first+`", "`+late+`"]`)), 0o600))
		return path
	}
	hand := func(release, host string) {
		t.Helper()
		path := filepath.Join(f.Dir, "hand.yaml")
		must(t, os.WriteFile(path, fmt.Appendf(nil, "run: ./web\ndirectory: %s\nenvironment: {RELEASE: %q}\nleave: keep\n", f.dir, release), 0o600))
		f.CLI("register", "shop/web", "--hosts", host, "--file", path, "--replace", "--yes")
	}
	drift := func(what string, want int, text string) {
		t.Helper()
		if code, out, errs := f.drover("drift", "shop/web"); code != want || !strings.Contains(out+errs, text) {
			t.Errorf("%s: exit code %d\n%s%s", what, code, out, errs)
		}
	}
	// Nobody has a file yet.
	hand("one", first+","+late)
	f.CLI("start", "shop/web", "--hosts", first+","+late, "--yes")
	if _, out, errs := f.drover("apply", "-f", file("one")); !strings.Contains(out+errs, "nothing to do; the file counts from now on") {
		t.Errorf("apply of what there is: %s%s", out, errs)
	}
	if _, out, errs := f.drover("apply", "-f", file("one")); !strings.Contains(out+errs, "hosts  nothing to do\n") {
		t.Errorf("a second apply: %s%s", out, errs)
	}
	drift("as the file", 0, "")
	hand("hand", late)
	drift("a change by hand", 3, "revision 2 has changed it since the file")

	f.CLI("apply", "-f", file("two"), "--yes", "--batch", "2", "--bake", "1s")
	drift("the next release", 0, "")
	f.CLI("rollout", "undo", strings.Fields(f.CLI("rollout", "list", "-o", "name"))[0], "--yes")
	drift("its undo", 3, "an undo, has brought back a change that no file made")
	f.CLI("apply", "-f", file("one"), "--yes")
	drift("the file again", 0, "")
}

// TestUndoLeavesAHostThatWasNotReached: an undo brings nothing to a host where a person removed the process before the
// apply came there.
func TestUndoLeavesAHostThatWasNotReached(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.join(first, "role=web")
	f.join(late, "role=web")
	file := func(release string) string {
		path := filepath.Join(f.Dir, release+".yaml")
		must(t, os.WriteFile(path, fmt.Appendf(nil, "namespace: shop\nprocesses:\n  web: {run: ./web, directory: %s, "+
			"environment: {RELEASE: %s}, hosts: [%q, %q]}\n", f.dir, release, first, late), 0o600))
		return path
	}
	f.CLI("apply", "-f", file("one"), "--yes")
	f.CLI("apply", "-f", file("two"), "--yes", "--batch", "1", "--bake", "1h", "--no-wait")
	id := strings.Fields(f.CLI("rollout", "list", "-o", "name"))[0]
	harness.Eventually(t, "the release on the first host", func() bool {
		return strings.Contains(f.starts(), first+" two")
	})
	f.CLI("stop", "shop/web", "--hosts", late, "--yes")
	f.CLI("unregister", "shop/web", "--hosts", late, "--yes")
	f.CLI("rollout", "pace", id, "--bake", "1s")
	if code, out, errs := f.drover("rollout", "watch", id); code != 7 {
		t.Errorf("the rollout: exit code %d\n%s%s", code, out, errs)
	}
	other := filepath.Join(f.Dir, "other.yaml")
	must(t, os.WriteFile(other, fmt.Appendf(nil, "namespace: other\nprocesses:\n  a: {run: sleep 100000, hosts: [%q]}\n", first), 0o600))
	f.CLI("apply", "-f", other, "--yes")
	if code, _, errs := f.drover("rollout", "undo", "--yes"); code != 2 || !strings.Contains(errs, "of other, made no rollout") {
		t.Errorf("an undo of an apply that made no rollout: exit code %d\n%s", code, errs)
	}
	f.CLI("rollout", "undo", id, "--yes")
	if state := f.state(late); state != "" {
		t.Errorf("the process that a person removed is %s again", state)
	}
	harness.Eventually(t, "the former release on the first host", func() bool {
		return strings.HasSuffix(f.starts(), first+" one")
	})
	if code, out, errs := f.drover("drift"); code != 0 {
		t.Errorf("drift: exit code %d\n%s%s", code, out, errs)
	}
}
