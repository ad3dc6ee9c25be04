package harness

import (
	"testing"

	"golang.org/x/sys/unix"
)

// SmallDisk mounts a file system of its own, of a size such as 4m, and returns its directory. It needs root, or a mount
// namespace as that of pidns. The file system goes with the test.
func SmallDisk(t testing.TB, size string) string {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size="+size); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}
