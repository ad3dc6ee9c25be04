package packages_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"drover/internal/test/harness"
)

// TestRelease makes releases in a clone: the section that was written by hand and each note are in the changelog once,
// nothing is left to release, and what cannot be released is refused before anything changes.
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
	for _, name := range []string{"release.sh", "sign.sh"} {
		script, err := os.ReadFile(filepath.Join(harness.Root(), "tools", name))
		must(t, err)
		must(t, harness.WriteProgram(filepath.Join(clone, "tools", name), script))
	}
	note := filepath.Join(clone, "changes", "unreleased", "a-note-of-the-test.md")
	must(t, os.WriteFile(note, []byte("Fixed: the first line.\nThe second ([page](../../docs/cli.md)).\n"), 0o644))
	changelog := filepath.Join(clone, "CHANGELOG.md")
	must(t, os.WriteFile(changelog, []byte("# Changelog\n\n## Unreleased: the test\n\nWritten.\n\n### A thing\n\n- by hand.\n\n"+
		"## 0.1.0 (2026-01-02)\n\n### Added\n\n- older.\n"), 0o644))
	refused := func(why string, args ...string) {
		t.Helper()
		if out, err := inClone("tools/release.sh", args...); err == nil ||
			!strings.Contains(out, why) {
			t.Errorf("%q: %v, says %q, want %q", args, err, out, why)
		}
	}
	refused("expected three numbers", "--no-packages", "1.2")
	refused("not committed", "--no-packages", "1.2.3")
	refused("expected --key FILE", "1.2.3")
	refused("cannot sign with", "--key", "README.md", "1.2.3")
	refused("cannot sign with", "--key", "none", "1.2.3")
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
	text, err := os.ReadFile(changelog)
	must(t, err)
	if !strings.HasPrefix(string(text), "# Changelog\n\n## 1.2.3 (") || strings.Contains(string(text), "Unreleased") ||
		!strings.Contains(string(text), ")\n\nWritten.\n\n### A thing\n\n- by hand.\n\n### ") ||
		!strings.Contains(string(text), "\n- the first line.\n  The second ([page](docs/cli.md)).\n") ||
		!strings.HasSuffix(string(text), "\n\n## 0.1.0 (2026-01-02)\n\n### Added\n\n- older.\n") {
		t.Errorf("the changelog is\n%.2000s", text)
	}
	if items := strings.Count(string(text), "\n- "); items != len(notes)+2 {
		t.Errorf("%d items of %d notes", items, len(notes))
	}
	if out, err := inClone("git", "describe", "--exact-match"); err != nil || out != "v1.2.3" {
		t.Errorf("the tag is %s, %v", out, err)
	}
	if out, err := inClone("git", "status", "--porcelain"); err != nil || out != "" {
		t.Errorf("what is left: %s, %v", out, err)
	}
	refused("the tag v1.2.3 exists", "--no-packages", "1.2.3")
	refused("nothing to release", "--no-packages", "1.2.4")

	// A section that was written by hand is enough.
	must(t, os.WriteFile(changelog, []byte("# Changelog\n\n## Unreleased: more\n\n- by hand.\n"), 0o644))
	if out, err := inClone("git", "commit", "--quiet", "-a", "-m", "a section"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if out, err := inClone("tools/release.sh", "--no-packages", "1.2.4"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if text, err := os.ReadFile(changelog); err != nil || !strings.HasSuffix(string(text), ")\n\n- by hand.\n") {
		t.Errorf("%v: the changelog is\n%.300s", err, text)
	}
}

// TestSignature: OpenSSH verifies the signature of the checksums by the public key alone. Another key, another purpose,
// and checksums that were changed are found.
func TestSignature(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	sh := func(script string) (string, error) {
		cmd := exec.Command("sh", "-ec", script)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "SIGN="+filepath.Join(harness.Root(), "tools", "sign.sh"))
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	if out, err := sh(`ssh-keygen -q -t ed25519 -N '' -C release -f key
ssh-keygen -q -t ed25519 -N '' -C stranger -f other
echo "drover $(cat key.pub)" >signers
echo "drover $(cat other.pub)" >strangers
mkdir dist; echo a file >dist/file; (cd dist; sha256sum file >SHA256SUMS)
"$SIGN" --try "$PWD/key"; "$SIGN" "$PWD/key" dist; cp -r dist changed; echo >>changed/SHA256SUMS`); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	verify := func(signers, purpose, dist string) string {
		return "ssh-keygen -Y verify -f " + signers + " -I drover -n " + purpose + " -s dist/SHA256SUMS.sig <" + dist + "/SHA256SUMS"
	}
	if out, err := sh(verify("signers", "drover-release", "dist")); err != nil || !strings.HasPrefix(out, "Good ") {
		t.Errorf("%v: %s", err, out)
	}
	for _, bad := range []string{
		verify("strangers", "drover-release", "dist"), verify("signers", "file", "dist"), verify("signers", "drover-release", "changed"),
	} {
		if out, err := sh(bad); err == nil {
			t.Errorf("%s: %s", bad, out)
		}
	}
	if out, err := sh(`echo >>dist/file; "$SIGN" "$PWD/key" dist`); err == nil {
		t.Errorf("what does not match its checksum is signed: %s", out)
	}
	if out, err := sh(`git -C ` + harness.Root() + ` grep -lE 'BEGIN (OPENSSH|PGP|RSA|EC) PRIVATE'`); err == nil {
		t.Errorf("the tree has a private key: %s", out)
	}
}
