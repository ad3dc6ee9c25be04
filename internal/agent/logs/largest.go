package logs

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"drover/internal/process"
)

// Size is how much room the log of a process takes, with its rotated files, in bytes of the disk.
type Size struct {
	Process process.ID
	Bytes   int64
}

// Largest returns the logs in a directory that take most room, at most n of them, the largest first. Logs that take no
// room are left out. It reads the directory, so it works while no agent runs; a log that it cannot read is left out.
func Largest(dir string, n int) ([]Size, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("cannot list the logs: %w", err)
	}
	var all []Size
	for _, e := range entries {
		var b bound
		text, err := os.ReadFile(filepath.Join(dir, e.Name(), boundFile))
		if err != nil || json.Unmarshal(text, &b) != nil {
			continue
		}
		if size := room(filepath.Join(dir, e.Name())); size > 0 {
			all = append(all, Size{b.Process, size})
		}
	}
	slices.SortFunc(all, func(one, other Size) int { return cmp.Compare(other.Bytes, one.Bytes) })
	return all[:min(n, len(all))], nil
}

// room is how many bytes of the disk the files in a directory take. A file with two names counts once.
func room(dir string) (bytes int64) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return 0
	}
	seen := map[uint64]bool{}
	for _, e := range entries {
		var st unix.Stat_t
		if unix.Lstat(filepath.Join(dir, e.Name()), &st) == nil && !seen[st.Ino] {
			seen[st.Ino] = true
			bytes += st.Blocks * 512 // stat(2): blocks of 512 bytes
		}
	}
	return bytes
}
