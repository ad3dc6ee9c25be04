package launch_test

import (
	"bufio"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"drover/internal/agent/launch"
	"drover/internal/agent/trail"
)

// TestVisit: a file is opened with the rights of the account, also in a directory that only its groups may enter; and
// afterwards this process has its own rights again, on every thread.
func TestVisit(t *testing.T) {
	if !others() {
		return
	}
	nobody, err := launch.LookupAccount("/", "nobody")
	if err != nil {
		t.Fatal(err)
	}
	root, err := launch.LookupAccount("/", "root")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for up := dir; up != "/tmp" && up != "/"; up = filepath.Dir(up) {
		if err := os.Chmod(up, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	const group = 4711
	member := nobody
	member.Groups = []uint32{nobody.GID, group}
	files := map[string]struct{ nobody, member bool }{
		"open": {true, true}, "root's": {}, "closed/open": {},
		"joint/open": {false, true},
	}
	for name := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("words"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for name, mode := range map[string]os.FileMode{"root's": 0o600, "closed": 0o700, "joint": 0o750} {
		if err := os.Chmod(filepath.Join(dir, name), mode); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chown(filepath.Join(dir, "joint"), 0, group); err != nil {
		t.Fatal(err)
	}
	opens := func(a launch.Account, path string) bool {
		return a.Visit(nil, path, func(way *trail.Trail) error {
			f, err := way.Open()
			if err == nil {
				_ = f.Close()
			}
			return err
		}) == nil
	}
	var wait sync.WaitGroup
	for range 20 {
		for name, want := range files {
			wait.Go(func() {
				path := filepath.Join(dir, name)
				for _, c := range []struct {
					who  string
					as   launch.Account
					want bool
				}{{"nobody", nobody, want.nobody}, {"a member", member, want.member}, {"root", root, true}} {
					if got := opens(c.as, path); got != c.want {
						t.Errorf("%s opens %s: %v", c.who, name, got)
					}
				}
				if _, err := os.ReadFile(path); err != nil {
					t.Errorf("afterwards: %v", err)
				}
			})
		}
	}
	wait.Wait()
}

// TestVisitBelowProc: what the kernel shows to root alone below /proc the account does not see, although the modes
// there are judged otherwise than those of files.
func TestVisitBelowProc(t *testing.T) {
	if !others() {
		return
	}
	nobody, err := launch.LookupAccount("/", "nobody")
	if err != nil {
		t.Fatal(err)
	}
	read := func(path string) (text string, err error) {
		err = nobody.Visit(nil, path, func(way *trail.Trail) error {
			f, err := way.Open()
			if err != nil {
				return err
			}
			defer f.Close()
			line, err := bufio.NewReader(f).ReadString('\n')
			text = line
			return err
		})
		return text, err
	}
	for _, path := range []string{
		"/proc/sys/net/ipv4/tcp_fastopen_key", "/proc/sys/kernel/cad_pid",
		"/proc/sys/kernel/usermodehelper/bset",
	} {
		if _, err := os.Stat(path); err != nil {
			continue
		}
		if text, err := read(path); err == nil {
			t.Errorf("%s says %q", path, text)
		}
	}
	if text, err := read("/proc/kallsyms"); err == nil && strings.Trim(strings.Fields(text)[0], "0") != "" {
		t.Errorf("addresses of the kernel are shown: %q", text)
	}
	if text, err := read("/proc/self/status"); err != nil || !strings.HasPrefix(text, "Name:") {
		t.Errorf("what everybody may see: %q, %v", text, err)
	}
}
