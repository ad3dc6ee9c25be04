package trail_test

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"drover/internal/agent/pidns"
	"drover/internal/agent/trail"
)

func TestMain(m *testing.M) { os.Exit(pidns.Run(m)) }

const (
	app   = 1234
	other = 1235
)

// tree is a directory with files and links in it.
func tree(t *testing.T) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	must(t, os.Chmod(dir, 0o755))
	must(t, os.Chmod(filepath.Dir(dir), 0o755))
	must(t, os.MkdirAll(dir+"/a/b", 0o755))
	for path, text := range map[string]string{"/a/f": "f", "/a/b/g": "g", "/h": "h"} {
		must(t, os.WriteFile(dir+path, []byte(text), 0o644))
	}
	for link, target := range map[string]string{
		"/to-f": "a/f", "/to-b": dir + "/a/b", "/a/up": "..", "/a/b/round": "../up/a/b", "/loop": "loop",
		"/nowhere": "none", "/slash": "a/f/",
		"/chain": "to-b/round/g",
	} {
		must(t, os.Symlink(target, dir+link))
	}
	must(t, unix.Mkfifo(dir+"/fifo", 0o644))
	return dir
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestFollow: a trail leads where the kernel would lead.
func TestFollow(t *testing.T) {
	dir := tree(t)
	for name, want := range map[string]struct {
		path, text string
		err        error
	}{
		"/h": {path: "/h", text: "h"}, "/a/f": {path: "/a/f", text: "f"}, "//a///f": {path: "/a/f", text: "f"},
		"/a/./f":    {path: "/a/f", text: "f"},
		"/a/b/../f": {path: "/a/f", text: "f"}, "/to-f": {path: "/a/f", text: "f"},
		"/to-b/g": {path: "/a/b/g", text: "g"}, "/to-b/../f": {path: "/a/f", text: "f"},
		"/a/up/h": {path: "/h", text: "h"}, "/chain": {path: "/a/b/g", text: "g"},
		"/a/b/round/round/g": {path: "/a/b/g", text: "g"},
		"/a":                 {path: "/a"}, "/a/": {path: "/a"}, "/to-b": {path: "/a/b"}, "/to-b/.": {path: "/a/b"},
		"/fifo": {path: "/fifo"},
		"/none": {err: fs.ErrNotExist}, "/nowhere": {err: fs.ErrNotExist}, "/none/f": {err: fs.ErrNotExist},
		"/loop": {err: syscall.ELOOP},
		"/h/":   {err: syscall.ENOTDIR}, "/h/x": {err: syscall.ENOTDIR}, "/slash": {err: syscall.ENOTDIR},
		"/fifo/x": {err: syscall.ENOTDIR},
	} {
		way, err := trail.Follow(dir + name)
		if !errors.Is(err, want.err) {
			t.Errorf("%s: %v, want %v", name, err, want.err)
		}
		if err != nil {
			continue
		}
		if way.Path != dir+want.path || way.Steps[0].Path != "/" || way.Steps[len(way.Steps)-1].Path != way.Path &&
			!strings.Contains(name, "..") && !strings.Contains(name, "up") {
			t.Errorf("%s leads to %s by %+v, want %s", name, way.Path, way.Steps, dir+want.path)
		}
		f, err := way.Open()
		switch {
		case want.path == "/fifo":
			if err == nil {
				t.Error("a FIFO was opened")
			}
		case err != nil:
			t.Errorf("%s: %v", name, err)
		case !way.IsDir():
			if text, err := io.ReadAll(f); err != nil || string(text) != want.text {
				t.Errorf("%s holds %q, %v", name, text, err)
			}
		}
		_ = f.Close()
		way.Close()
	}
	for _, name := range []string{"", "h", "./h", dir + "/h\x00"} {
		if _, err := trail.Follow(name); err == nil {
			t.Errorf("%q was followed", name)
		}
	}
}

// TestOpenIsOfWhatWasFollowed: what has taken the place of a file since is not opened.
func TestOpenIsOfWhatWasFollowed(t *testing.T) {
	dir := tree(t)
	way, err := trail.Follow(dir + "/a/f")
	must(t, err)
	defer way.Close()
	must(t, os.Rename(dir+"/h", dir+"/a/f"))
	f, err := way.Open()
	must(t, err)
	defer f.Close()
	if text, err := io.ReadAll(f); err != nil || string(text) != "f" {
		t.Errorf("it holds %q, %v", text, err)
	}
}

// TestWeak: who can replace a step decides.
func TestWeak(t *testing.T) {
	own := trail.Trusted{UIDs: []uint32{app}, GIDs: []uint32{app}}
	for name, c := range map[string]struct {
		path string
		set  func(dir string) error
		weak string
	}{
		"all root's": {path: "/a/f"},
		"a file of the account": {path: "/a/f", set: func(dir string) error {
			return os.Chown(dir+"/a/f", app, app)
		}},
		"a directory of the account": {path: "/a/f", set: func(dir string) error {
			return os.Chown(dir+"/a", app, app)
		}},
		"a file of somebody else": {path: "/a/f", set: func(dir string) error {
			return os.Chown(dir+"/a/f", other, app)
		}, weak: "/a/f belongs to uid 1235"},
		"a directory of somebody else": {path: "/a/f", set: func(dir string) error {
			return os.Chown(dir+"/a", other, app)
		}, weak: "/a belongs to uid 1235"},
		"a parent of somebody else": {path: "/a/b/g", set: func(dir string) error {
			return os.Chown(dir+"/a", other, app)
		}, weak: "/a belongs to uid 1235"},
		"a directory for everybody": {
			path: "/a/f", set: func(dir string) error { return os.Chmod(dir+"/a", 0o777) },
			weak: "/a may be written by everybody: its mode is 0777",
		},
		"a sticky one": {path: "/a/f", set: func(dir string) error {
			return os.Chmod(dir+"/a", 0o777|os.ModeSticky)
		}},
		"a sticky one of somebody else": {path: "/a/f", set: func(dir string) error {
			return errors.Join(os.Chown(dir+"/a", other, 0), os.Chmod(dir+"/a", 0o777|os.ModeSticky))
		}, weak: "/a belongs to uid 1235"},
		"somebody else's file in a sticky one": {path: "/a/f", set: func(dir string) error {
			return errors.Join(os.Chown(dir+"/a/f", other, 0), os.Chmod(dir+"/a", 0o777|os.ModeSticky))
		}, weak: "/a/f belongs to uid 1235"},
		"a file for everybody": {path: "/a/f", set: func(dir string) error {
			return os.Chmod(dir+"/a/f", 0o666)
		}, weak: "/a/f may be written by everybody: its mode is 0666"},
		"a directory of root's group": {path: "/a/f", set: func(dir string) error { return os.Chmod(dir+"/a", 0o775) }},
		"one of the account's group": {path: "/a/f", set: func(dir string) error {
			return errors.Join(os.Chown(dir+"/a", 0, app), os.Chmod(dir+"/a", 0o775))
		}},
		"one of another group": {path: "/a/f", set: func(dir string) error {
			return errors.Join(os.Chown(dir+"/a", 0, other), os.Chmod(dir+"/a", 0o775))
		}, weak: "/a may be written by group 1235: its mode is 0775"},
		"a file of another group": {path: "/a/f", set: func(dir string) error {
			return errors.Join(os.Chown(dir+"/a/f", 0, other), os.Chmod(dir+"/a/f", 0o664))
		}, weak: "/a/f may be written by group 1235: its mode is 0664"},
		"a link through somebody else": {path: "/to-b/g", set: func(dir string) error {
			return os.Chown(dir+"/a", other, app)
		}, weak: "/a belongs to uid 1235"},
		"a link of somebody else": {path: "/to-b/g", set: func(dir string) error {
			return os.Lchown(dir+"/to-b", other, app)
		}, weak: "/to-b belongs to uid 1235"},
		"a detour": {path: "/a/b/../../h", set: func(dir string) error {
			return os.Chown(dir+"/a/b", other, app)
		}, weak: "/a/b belongs to uid 1235"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := tree(t)
			if c.set != nil {
				must(t, c.set(dir))
			}
			way, err := trail.Follow(dir + c.path)
			must(t, err)
			defer way.Close()
			want := ""
			if c.weak != "" {
				want = dir + c.weak
			}
			if got := way.Weak(own); got != want {
				t.Errorf("it says %q, want %q", got, want)
			}
		})
	}
}
