package sqlite

import (
	"context"
	"fmt"

	"golang.org/x/sys/unix"

	"drover/internal/server/store/sqldb"
)

// origin returns what tells a file from a copy of it: its number in the file system, and when it was made.
func origin(path string) func(context.Context, sqldb.Backend) (origin, run string, err error) {
	return func(context.Context, sqldb.Backend) (string, string, error) {
		var s unix.Statx_t
		if err := unix.Statx(unix.AT_FDCWD, path, 0, unix.STATX_INO|unix.STATX_BTIME, &s); err != nil {
			return "", "", fmt.Errorf("cannot look at database %s: %w", path, err)
		}
		return fmt.Sprintf("file %d %d.%09d", s.Ino, s.Btime.Sec, s.Btime.Nsec), "", nil
	}
}
