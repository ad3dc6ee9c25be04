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
