package packages_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"drover/internal/test/harness"
)

// TestRelease makes a release in a clone: each note is in the changelog once, nothing is left to release, and what
// cannot be released is refused before anything changes.
func TestRelease(t *testing.T) {
	t.Parallel()
	clone := filepath.Join(t.TempDir(), "clone")
	inClone := func(name string, args ...string) (string, error) {
		cmd := exec.Command(name, args...)
		cmd.Dir = clone
		cmd.Env = append(os.Environ(), "GIT_AUTHOR_NAME=t", "GIT_AUTHOR_EMAIL=t@example.com",
			"GIT_COMMITTER_NAME=t", "GIT_COMMITTER_EMAIL=t@example.com")
		out, err := cmd.CombinedOutput()
		return strings.TrimSpace(string(out)), err
	}
	if out, err := exec.Command("git", "clone", "--quiet", "--no-tags", harness.Root(), clone).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	// As it is in the tree, committed or not.
	script, err := os.ReadFile(filepath.Join(harness.Root(), "tools", "release.sh"))
	must(t, err)
	must(t, os.WriteFile(filepath.Join(clone, "tools", "release.sh"), script, 0o755))
	note := filepath.Join(clone, "changes", "unreleased", "a-note-of-the-test.md")
	must(t, os.WriteFile(note, []byte("Fixed: the first line.\nThe second ([page](../../docs/cli.md)).\n"), 0o644))
	refused := func(why string, args ...string) {
		t.Helper()
		if out, err := inClone("tools/release.sh", append([]string{"--no-packages"}, args...)...); err == nil ||
			!strings.Contains(out, why) {
			t.Errorf("%q: %v, says %q, want %q", args, err, out, why)
		}
	}
	refused("expected three numbers", "1.2")
	refused("not committed", "1.2.3")
	for _, args := range [][]string{{"add", "-A"}, {"commit", "--quiet", "-m", "a note"}} {
		if out, err := inClone("git", args...); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	notes, err := filepath.Glob(filepath.Join(clone, "changes", "unreleased", "*.md"))
	must(t, err)
	if out, err := inClone("tools/release.sh", "--no-packages", "1.2.3"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	text, err := os.ReadFile(filepath.Join(clone, "CHANGELOG.md"))
	must(t, err)
	if !strings.HasPrefix(string(text), "# Changelog\n\n## 1.2.3 (") ||
		!strings.Contains(string(text), "\n- the first line.\n  The second ([page](docs/cli.md)).\n") {
		t.Errorf("the changelog begins with\n%.300s", text)
	}
	if items := strings.Count(string(text), "\n- "); items < len(notes) {
		t.Errorf("%d items of %d notes", items, len(notes))
	}
	if out, err := inClone("git", "describe", "--exact-match"); err != nil || out != "v1.2.3" {
		t.Errorf("the tag is %s, %v", out, err)
	}
	if out, err := inClone("git", "status", "--porcelain"); err != nil || out != "" {
		t.Errorf("what is left: %s, %v", out, err)
	}
	refused("the tag v1.2.3 exists", "1.2.3")
	refused("nothing to release", "1.2.4")
}
