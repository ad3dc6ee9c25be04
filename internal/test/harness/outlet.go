package harness

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// Outlet is the power of a machine of its own, whose disk is an ext4 in a file. It needs root and a kernel with loop
// devices and ext4.
type Outlet struct {
	t           testing.TB
	image, disk string
	// boot is the file with the boot id of the machine; its name is that of no other machine.
	boot  string
	boots int
}

// PlugIn puts the disk of a new machine at a directory, which it makes, until the test ends.
func PlugIn(t testing.TB, disk string) *Outlet {
	t.Helper()
	dir := t.TempDir()
	boot, err := os.CreateTemp(dir, "boot-id-")
	o := &Outlet{t: t, image: filepath.Join(dir, "image"), disk: disk}
	o.must(err)
	o.must(boot.Close())
	o.boot = boot.Name()
	o.must(os.MkdirAll(disk, 0o700))
	o.must(os.WriteFile(o.image, nil, 0o600))
	o.must(os.Truncate(o.image, 256<<20))
	o.command("mkfs.ext4", "-q", o.image)
	// The end of a mount reaches the copies that the programs of other machines have of it through the mount below
	// (mount_namespaces(7)). A copy would keep the disk, so this machine could not boot before those programs end.
	o.must(unix.Mount(disk, disk, "", unix.MS_BIND, ""))
	o.must(unix.Mount("", disk, "", unix.MS_SHARED, ""))
	o.on()
	t.Cleanup(func() {
		o.end()
		o.must(unix.Unmount(disk, 0))
		o.must(unix.Unmount(disk, 0))
	})
	return o
}

func (o *Outlet) must(err error) {
	o.t.Helper()
	if err != nil {
		o.t.Fatal(err)
	}
}

func (o *Outlet) command(name string, args ...string) string {
	o.t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		o.t.Fatalf("%s %q: %v: %s", name, args, err, out)
	}
	return string(out)
}

// Place is what the command lines of programs on the machine begin with. A program and its children see the boot id of
// the machine, and end with its power.
func (o *Outlet) Place() []string {
	return []string{
		"unshare", "--mount", "--propagation", "slave",
		"sh", "-c", `mount --bind "$0" /proc/sys/kernel/random/boot_id && exec "$@"`, o.boot,
	}
}

// on boots the machine, with another boot id.
func (o *Outlet) on() {
	o.t.Helper()
	o.boots++
	o.must(os.WriteFile(o.boot, fmt.Appendf(nil, "00000000-0000-4000-8000-%012d\n", o.boots), 0o644))
	o.command("mount", "-o", "loop", o.image, o.disk)
}

// Cut takes the power away and gives it back. What was written to the disk and not synced is gone, and all programs on
// the machine have ended.
func (o *Outlet) Cut() {
	o.t.Helper()
	dir, err := os.Open(o.disk)
	o.must(err)
	// EXT4_IOC_SHUTDOWN with EXT4_GOING_FLAGS_NOLOGFLUSH (fs/ext4/ext4.h): not even the journal is written.
	const shutdown, noLogFlush = 0x8004587d, 2
	err = unix.IoctlSetPointerInt(int(dir.Fd()), shutdown, noLogFlush)
	o.must(dir.Close())
	o.must(err)
	o.end()
	o.must(unix.Unmount(o.disk, 0))
	Eventually(o.t, "the release of the disk", func() bool { return o.command("losetup", "-j", o.image) == "" })
	o.on()
}

// end ends all programs on the machine: those that see its boot id.
func (o *Outlet) end() {
	o.t.Helper()
	seen := []byte(filepath.Base(o.boot) + " /proc/sys/kernel/random/boot_id ")
	Eventually(o.t, "the end of all programs on the machine", func() bool {
		tables, _ := filepath.Glob("/proc/[0-9]*/mountinfo") // the pattern is right
		left := false
		for _, path := range tables {
			left = o.endOne(path, seen) || left
		}
		return !left
	})
}

// endOne ends the process of a table of mounts if it has seen the mount, and reports whether it has.
func (o *Outlet) endOne(path string, seen []byte) bool {
	o.t.Helper()
	var pid int
	_, err := fmt.Sscanf(path, "/proc/%d/", &pid)
	if o.must(err); pid <= 1 {
		return false
	}
	fd, err := unix.PidfdOpen(pid, 0) // before the look: the pid may be another's afterwards
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	table, err := os.ReadFile(path)
	if err != nil || !bytes.Contains(table, seen) {
		return false
	}
	_ = unix.PidfdSendSignal(fd, syscall.SIGKILL, nil, 0) // or it has ended
	return true
}
