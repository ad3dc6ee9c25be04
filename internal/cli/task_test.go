package cli_test

import (
	"strings"
	"testing"

	"drover/internal/test/harness"
)

// TestTaskByTheBeginningOfItsID: with and without what all ids begin with, and never one of several.
func TestTaskByTheBeginningOfItsID(t *testing.T) {
	t.Parallel()
	s := harness.Start(t, binaries.drover)
	registered(t, s, "task/one", "task/two")
	ids := strings.Fields(strings.ReplaceAll(run(t, s, "task", "list", "-o", "name"), "task/", ""))
	if len(ids) != 2 {
		t.Fatalf("tasks %q", ids)
	}
	common := 0
	for common < len(ids[0]) && ids[0][common] == ids[1][common] {
		common++
	}
	for _, id := range ids {
		part := id[:common+1]
		for _, word := range []string{id, part, strings.TrimPrefix(part, "GSETASK:S:")} {
			if got := run(t, s, "task", "get", word, "-o", "json"); !strings.Contains(got, id) {
				t.Errorf("%q: %s", word, got)
			}
			run(t, s, "task", "watch", word)
		}
	}
	env := harness.Environment("/")
	for word, want := range map[string]struct {
		code int
		says string
	}{
		ids[0][:common]: {2, "matches 2 ids"},
		"nothing":       {4, "nothing"},
	} {
		r := harness.Finish(t, "", env, binaries.drover, "task", "get", word, "--data-dir", s.DataDir)
		if r.Code != want.code || !strings.Contains(r.Errors, want.says) {
			t.Errorf("%q: exit code %d, %s", word, r.Code, r.Errors)
		}
	}
}
