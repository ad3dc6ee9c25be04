package agent

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// unmapProgram lets go of the pages of this program's own file: those that are used again come back from the system's cache at once, and
// those that only the start or a burst needed, half of all, stay away. They are never written, so nothing is lost. Where there is no /proc,
// or no such call, the pages stay: nothing depends on it.
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
		var from, to uintptr
		var rights string
		if _, err := fmt.Sscanf(line, "%x-%x %s", &from, &to, &rights); err != nil {
			return
		}
		if strings.HasSuffix(line, " "+self+"\n") && !strings.Contains(rights, "w") {
			_, _, _ = unix.Syscall(unix.SYS_MADVISE, from, to-from, unix.MADV_DONTNEED) // what is kept is kept
		}
	}
}
