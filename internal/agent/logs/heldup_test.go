package logs_test

import (
	"os"
	"strings"
	"sync"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"drover/internal/test/harness"
)

// TestPipeThatItsProcessHoldsUp: a process may write text that the kernel cannot read yet. It then has the lock of its
// pipe, so that even a non-blocking call on the pipe hangs. The agent goes on, ends and begins, and reads the text later.
func TestPipeThatItsProcessHoldsUp(t *testing.T) {
	r := newRig(t)
	stop := r.run()
	out, _, run := r.begin(piped(64<<10, 1))
	write(t, out, "first\n")
	harness.Eventually(t, "the first line", func() bool { return r.Text(run) == "first" })
	let := holdUp(t, out)
	if got := r.Text(run); got != "first" {
		t.Errorf("the run has written %q", got)
	}
	stop()
	r.reopen()
	stop = r.run()
	if got := r.Text(run); got != "first" {
		t.Errorf("the next agent reads %q", got)
	}
	stop()
	let()
	r.reopen()
	r.run()
	write(t, out, "last\n")
	harness.Eventually(t, "the last line", func() bool { return strings.HasSuffix(r.Text(run), "last") })
}

// holdUp makes a thread hang in a write to a pipe until let is called, or the test ends.
func holdUp(t *testing.T, pipe *os.File) (let func()) {
	t.Helper()
	fd, _, errno := unix.Syscall(unix.SYS_USERFAULTFD, unix.O_CLOEXEC, 0, 0)
	if errno != 0 {
		t.Fatalf("userfaultfd: %v", errno)
	}
	text, err := unix.Mmap(-1, 0, os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	const api, register, missing = 0xc018aa3f, 0xc020aa00, 1 // of linux/userfaultfd.h
	version := [3]uint64{0xaa}
	area := [4]uint64{uint64(uintptr(unsafe.Pointer(&text[0]))), uint64(len(text)), missing}
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, fd, api, uintptr(unsafe.Pointer(&version))); errno != 0 {
		t.Fatalf("UFFDIO_API: %v", errno)
	}
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, fd, register, uintptr(unsafe.Pointer(&area))); errno != 0 {
		t.Fatalf("UFFDIO_REGISTER: %v", errno)
	}
	var writer sync.WaitGroup
	writer.Go(func() {
		if _, err := unix.Write(int(pipe.Fd()), text); err != nil {
			t.Errorf("the process that holds up its pipe: %v", err)
		}
	})
	// The kernel tells of the page that the write needs.
	message := make([]byte, 32)
	if n, err := unix.Read(int(fd), message); err != nil || n != len(message) {
		t.Fatalf("no page is missing: %d bytes, %v", n, err)
	}
	let = sync.OnceFunc(func() {
		unix.Close(int(fd)) //nolint:errcheck // the page then has zeros
		writer.Wait()
	})
	t.Cleanup(let)
	return let
}
