package processes

import (
	"strings"
	"testing"

	"drover/internal/importer"
)

// TestReleaseNamesSections: each section of supervisord is named once, also in its group.
func TestReleaseNamesSections(t *testing.T) {
	text := releaseSupervisord(t.Context(), []string{t.TempDir() + "/none.conf"}, []importer.Process{
		{Origins: []string{"worker:worker_00"}, Program: "worker"},
		{Origins: []string{"g:ev"}, Program: "ev", Group: "g"},
		{Origins: []string{"worker:worker_01"}, Program: "worker"},
	})
	const want = `
  remove [program:worker] from the configuration (process worker:worker_00, worker:worker_01)
  remove [program:ev] from the configuration, and ev from programs of [group:g] (process g:ev)
Then`
	if !strings.Contains(text, want) {
		t.Errorf("%s\nwant%s", text, want)
	}
}
