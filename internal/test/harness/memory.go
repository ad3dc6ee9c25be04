package harness

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
)

// Peak returns the most memory that a process has held, in MB.
func Peak(t testing.TB, pid int) int {
	t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kB, err := strconv.Atoi(strings.Fields(rest)[0])
			if err != nil {
				t.Fatal(err)
			}
			return kB >> 10
		}
	}
	t.Fatal("its peak is not known")
	return 0
}
