package upgrade

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"log/slog"
	"os"
	"strings"
	"testing"

	"drover/internal/agent/specstore"
	"drover/internal/process"
	"drover/internal/release"
)

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// have puts a program into a directory and returns it.
func have(t *testing.T, dir, version string) *Program {
	t.Helper()
	text := []byte("program " + version)
	sum := sha256.Sum256(text)
	p := &Program{Version: version, SHA256: hex.EncodeToString(sum[:]), Signed: 1}
	err := errors.Join(os.MkdirAll(versionsOf(dir), 0o700), os.WriteFile(programOf(dir, p.SHA256), text, 0o700))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestChoose is about the test's own program, which is the installed one.
func TestChoose(t *testing.T) {
	own, err := self()
	if err != nil {
		t.Fatal(err)
	}
	installed, err := fingerprint(own)
	if err != nil {
		t.Fatal(err)
	}
	for what, c := range map[string]struct {
		spoil func(t *testing.T, dir string, s *state)
		// runs tells that the version in use runs, kept that it stays in use.
		runs, kept bool
	}{
		"as it was":              {func(*testing.T, string, *state) {}, true, true},
		"no version":             {func(_ *testing.T, _ string, s *state) { s.Current = nil }, false, false},
		"another installed one":  {func(_ *testing.T, _ string, s *state) { s.Installed = "1 2 3.4" }, false, false},
		"an unknown installed":   {func(_ *testing.T, _ string, s *state) { s.Installed = "" }, false, false},
		"a program that is gone": {func(_ *testing.T, dir string, s *state) { _ = os.Remove(programOf(dir, s.Current.SHA256)) }, false, false},
		"a cut program": {func(t *testing.T, dir string, s *state) {
			t.Helper()
			if err := os.Truncate(programOf(dir, s.Current.SHA256), 3); err != nil {
				t.Fatal(err)
			}
		}, false, false},
	} {
		t.Run(what, func(t *testing.T) {
			dir := t.TempDir()
			p := have(t, dir, "1.4.0")
			s := state{Current: p, Installed: installed, Signed: 7}
			c.spoil(t, dir, &s)
			if err := save(dir, s); err != nil {
				t.Fatal(err)
			}
			got := Choose(dir, quiet())
			if c.runs != (got.Run != "") || c.runs && (got.Run != programOf(dir, p.SHA256) || got.Version.Version != "1.4.0") {
				t.Errorf("it chose %+v", got)
			}
			after, err := load(dir)
			if err != nil || (after.Current != nil) != c.kept || after.Signed != 7 {
				t.Errorf("%+v is stored: %v", after, err)
			}
			told := after.Verdict != nil && after.Verdict.Untold && after.Verdict.Version == "1.4.0" &&
				strings.Contains(after.Verdict.Text, "cannot be used any more")
			if spoiled := strings.HasPrefix(what, "a "); told != spoiled {
				t.Errorf("the verdict is %+v", after.Verdict)
			}
		})
	}
}

// TestInterruptedTrial: a start that finds a trial knows that it has failed, and says so once.
func TestInterruptedTrial(t *testing.T) {
	dir := t.TempDir()
	p := have(t, dir, "1.5.0")
	if err := save(dir, state{Trial: &Trial{Item: "i", Program: *p}}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if got := Choose(dir, quiet()); got.Run != "" || got.Version != nil {
			t.Errorf("it chose %+v", got)
		}
		s, err := load(dir)
		if err != nil || s.Trial != nil || s.Verdict == nil || s.Verdict.Item != "i" || s.Verdict.Fault != process.Failed ||
			!strings.Contains(s.Verdict.Text, "the agent or the host ended during its trial") {
			t.Errorf("%+v is stored: %v", s, err)
		}
	}
}

// TestDamagedState: without a readable file the installed program runs, and nothing is written over.
func TestDamagedState(t *testing.T) {
	dir := t.TempDir()
	have(t, dir, "1.4.0")
	for _, text := range []string{"", "{", "[]", `{"current":7}`} {
		if err := os.WriteFile(stateOf(dir), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := Choose(dir, quiet()); got.Run != "" || got.Version != nil {
			t.Errorf("%q: it chose %+v", text, got)
		}
		if now, err := os.ReadFile(stateOf(dir)); err != nil || string(now) != text {
			t.Errorf("%q became %q: %v", text, now, err)
		}
	}
	if got := Choose(t.TempDir(), quiet()); got.Run != "" || got.Version != nil {
		t.Errorf("without a file it chose %+v", got)
	}
}

// TestOlderInstalledProgram: a program installed by hand does not replace a version whose files it cannot read.
func TestOlderInstalledProgram(t *testing.T) {
	dir := t.TempDir()
	p := have(t, dir, "1.4.0")
	p.Format = release.Format + 1
	for what, spoil := range map[string]func(){
		"installed by hand": func() {},
		"and damaged": func() {
			if err := os.Truncate(programOf(dir, p.SHA256), 3); err != nil {
				t.Fatal(err)
			}
		},
	} {
		p = have(t, dir, "1.4.0")
		p.Format = release.Format + 1
		if err := save(dir, state{Current: p, Installed: "1 2 3.4"}); err != nil {
			t.Fatal(err)
		}
		spoil()
		got := Choose(dir, quiet())
		if runs := got.Run != ""; runs != (what == "installed by hand") {
			t.Errorf("%s: it chose %+v", what, got)
		}
		if after, err := load(dir); err != nil || after.Current == nil {
			t.Errorf("%s: %+v is stored: %v", what, after, err)
		}
	}
}

// TestChooseBesideAnAgent: a second start changes nothing while an agent runs.
func TestChooseBesideAnAgent(t *testing.T) {
	dir := t.TempDir()
	p := have(t, dir, "1.4.0")
	if err := save(dir, state{Current: p, Installed: "1 2 3.4", Trial: &Trial{Item: "i", Program: *p}}); err != nil {
		t.Fatal(err)
	}
	db, err := specstore.Open(dir, "boot")
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if got := Choose(dir, quiet()); got.Run != "" || got.Version != nil {
			t.Errorf("it chose %+v", got)
		}
		if s, err := load(dir); err != nil || s.Trial == nil || s.Current == nil || s.Verdict != nil {
			t.Errorf("%+v is stored: %v", s, err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	Choose(dir, quiet())
	if s, err := load(dir); err != nil || s.Trial != nil || s.Verdict == nil {
		t.Errorf("after the agent %+v is stored: %v", s, err)
	}
}
