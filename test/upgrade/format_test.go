package upgrade_test

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"drover/internal/test/harness"
)

// TestNewerFormat: an agent that cannot read the files of a later one refuses them before it touches anything, and the
// later one goes on with them.
func TestNewerFormat(t *testing.T) {
	t.Parallel()
	later := buildEdited(t, "newer-format", newerFormat())
	r := newRig(t)
	file := filepath.Join(r.dir, "file.yaml")
	text := "namespace: shop\nprocesses:\n  api: {hosts: [\"" + host + "\"], run: sleep 100000, ready: {alive: 0s}}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	r.CLI("apply", "-f", file, "--yes")
	before := pid(r.processes()["api"])
	r.agent.End(syscall.SIGKILL)
	r.begin(later)
	r.agent.End(syscall.SIGKILL)
	files := r.files()
	code, out, errs := r.Run("one", "", binaries.agent, "run", "--data-dir", r.AgentDir("one"))
	if code != 1 || out != "" ||
		!strings.Contains(errs, "the file has format 2, written by a newer drover; this one knows up to 1") {
		t.Errorf("the older agent: exit code %d\n%s%s", code, out, errs)
	}
	if now := r.files(); !maps.Equal(now, files) {
		t.Errorf("the older agent has touched files:\n%v, before\n%v", now, files)
	}
	if !harness.Alive(before) {
		t.Errorf("pid %d is gone", before)
	}
	r.begin(later)
	r.CLI("restart", "shop/api", "--yes")
	if now := pid(r.processes()["api"]); now == before || !harness.Alive(now) || harness.Alive(before) {
		t.Errorf("the later agent has made pid %d of pid %d", now, before)
	}
}

// files are what the agent has on its disk: by name, the mode, the time of the last change and a sum of the content.
func (r *rig) files() map[string]string {
	r.t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(r.AgentDir("one"), func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		text := []byte{}
		if info.Mode().IsRegular() {
			if text, err = os.ReadFile(path); err != nil {
				return err
			}
		}
		all[path] = fmt.Sprintf("%v %v %x", info.Mode(), info.ModTime(), sha256.Sum256(text))
		return nil
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return all
}
