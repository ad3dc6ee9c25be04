package upgrade_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestInstalledProgramLeadsToTheOneInUse: the installed program hands over to the version in use also if only that version
// knows the settings. If that version cannot be executed, the installed program goes on.
func TestInstalledProgramLeadsToTheOneInUse(t *testing.T) {
	for what, c := range map[string]struct{ program, want string }{
		"a later version":     {"#!/bin/sh\necho \"later: $*\"\n", "later: run --config agent.conf"},
		"one that cannot run": {"#!/no/such/interpreter\n", "unknown setting \"colour\""},
	} {
		t.Run(what, func(t *testing.T) {
			dir := t.TempDir()
			versions := filepath.Join(dir, "data", "agent", "versions")
			sum := sha256.Sum256([]byte(c.program))
			name := hex.EncodeToString(sum[:])
			info, err := os.Stat(binaries.agent)
			if err != nil {
				t.Fatal(err)
			}
			sys, _ := info.Sys().(*syscall.Stat_t)
			state, err := json.Marshal(map[string]any{
				"current":   map[string]any{"version": "9.9.9", "sha256": name, "signed": 1, "format": 1},
				"installed": fmt.Sprintf("%d %d %d.%09d", sys.Ino, sys.Size, sys.Mtim.Sec, sys.Mtim.Nsec),
			})
			if err != nil {
				t.Fatal(err)
			}
			if err := os.MkdirAll(versions, 0o700); err != nil {
				t.Fatal(err)
			}
			for path, text := range map[string]string{
				filepath.Join(versions, "state.json"):         string(state),
				filepath.Join(versions, "drover-agent-"+name): c.program,
				filepath.Join(dir, "agent.conf"):              "data-dir: data\ncolour: blue\n",
			} {
				if err := os.WriteFile(path, []byte(text), 0o700); err != nil { //nolint:gosec // a program
					t.Fatal(err)
				}
			}
			cmd := exec.CommandContext(t.Context(), binaries.agent, "run", "--config", "agent.conf")
			cmd.Dir = dir
			text, err := cmd.CombinedOutput()
			if !strings.Contains(string(text), c.want) || (err == nil) != (what == "a later version") {
				t.Errorf("it wrote %q: %v", text, err)
			}
		})
	}
}
