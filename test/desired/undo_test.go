package desired_test

import (
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
