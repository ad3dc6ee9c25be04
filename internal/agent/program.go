package agent

import (
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// unmapProgram drops the pages of this program's own file from memory. Pages that are used again come back from the
// page cache at once. Pages that only the start or a burst needed, half of all, stay away. Nobody writes these pages,
// so nothing is lost. Without /proc or the system call the pages stay, and nothing depends on it.
func unmapProgram() {
	self, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return
	}
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return
	}
	for line := range strings.Lines(string(maps)) {
		if !strings.HasSuffix(line, " "+self+"\n") {
			continue
		}
		span, rest, _ := strings.Cut(line, " ")
		rights, _, _ := strings.Cut(rest, " ")
		first, end, _ := strings.Cut(span, "-")
		from, errFrom := strconv.ParseUint(first, 16, strconv.IntSize)
		to, errTo := strconv.ParseUint(end, 16, strconv.IntSize)
		if errFrom != nil || errTo != nil {
			return
		}
		if !strings.Contains(rights, "w") {
			// a failure is harmless: the pages stay
			_, _, _ = unix.Syscall(unix.SYS_MADVISE, uintptr(from), uintptr(to-from), unix.MADV_DONTNEED)
		}
	}
}
