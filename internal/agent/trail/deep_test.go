package trail_test

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"drover/internal/agent/trail"
)

// abyss makes a tree so deep that no path leads to its end, and links that lead there all the same: each is at the end
// of what the one before it leads through.
func abyss(t *testing.T, links, each int) (top string) {
	t.Helper()
	top = tree(t)
	at, err := unix.Open(top, unix.O_PATH|unix.O_DIRECTORY, 0)
	must(t, err)
	for i := range links {
		must(t, unix.Symlinkat(strings.Repeat("d/", each)+fmt.Sprintf("link%d", i+1), at, fmt.Sprintf("link%d", i)))
		for range each {
			must(t, unix.Mkdirat(at, "d", 0o755))
			next, err := unix.Openat(at, "d", unix.O_PATH|unix.O_DIRECTORY, 0)
			must(t, err)
			must(t, unix.Close(at))
			at = next
		}
	}
	must(t, unix.Mkdirat(at, fmt.Sprintf("link%d", links), 0o755))
	must(t, unix.Close(at))
	return top
}

// TestFollowDoesNotGoTooDeep: whoever may make directories and links decides how far a trail leads, and not how much
// memory and how many descriptors that costs.
func TestFollowDoesNotGoTooDeep(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: it makes a path of thousands of directories")
	}
	top := abyss(t, 10, 1000)
	t.Cleanup(func() { must(t, os.RemoveAll(top)) })
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	way, err := trail.Follow(top + "/link0")
	runtime.ReadMemStats(&after)
	if err == nil {
		t.Errorf("it leads to a path of %d bytes, in %d steps", len(way.Path), len(way.Steps))
		way.Close()
	} else if !errors.Is(err, syscall.ENAMETOOLONG) {
		t.Error(err)
	}
	if took := after.TotalAlloc - before.TotalAlloc; took > 64<<20 {
		t.Errorf("it took %d MiB", took>>20)
	}
	round := top + strings.Repeat("/a/..", 600)
	must(t, os.Symlink(round+"/h", top+"/round"))
	way, err = trail.Follow(top + "/round")
	must(t, err)
	way.Close()
	for i := range 30 {
		must(t, os.Symlink(round+fmt.Sprintf("/round%d", i+1), top+fmt.Sprintf("/round%d", i)))
	}
	must(t, os.Symlink("h", top+"/round30"))
	if way, err = trail.Follow(top + "/round0"); err == nil {
		t.Errorf("%d steps were taken", len(way.Steps))
		way.Close()
	}
}

// TestResolve: the kernel follows links, and gives up where there are too many.
func TestResolve(t *testing.T) {
	dir := tree(t)
	for name, want := range map[string]string{
		"/chain": "/a/b/g", "/a/up/h": "/h", "/to-b/../f": "/a/f",
		"/fifo": "/fifo", "/a/": "/a", "/nowhere": "", "/loop": "", "/h/x": "",
	} {
		got, err := trail.Resolve(dir + name)
		if want != "" && got != dir+want || (err == nil) != (want != "") {
			t.Errorf("%s leads to %q, %v, want %s", name, got, err, want)
		}
	}
	for i := range 100 {
		must(t, os.Symlink(fmt.Sprintf("step%d", i+1), fmt.Sprintf("%s/step%d", dir, i)))
	}
	must(t, os.Mkdir(dir+"/step100", 0o755))
	if got, err := trail.Resolve(dir + "/step0"); !errors.Is(err, syscall.ELOOP) {
		t.Errorf("a hundred links lead to %s: %v", got, err)
	}
}
