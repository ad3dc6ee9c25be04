package agent

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"syscall"
)

// placeOf tells this host and this data directory from every other: a copy of the disk is on another machine or in
// another boot, and a copy of the directory is another directory. It says nothing about the host.
func placeOf(dir, boot string) string {
	id, _ := os.ReadFile("/etc/machine-id") // a host without one has its boot
	inode := ""
	if info, err := os.Stat(dir); err == nil {
		if sys, ok := info.Sys().(*syscall.Stat_t); ok {
			inode = fmt.Sprintf("%d:%d", sys.Dev, sys.Ino)
		}
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "drover place 1\n%s\n%s\n%s", id, boot, inode))
	return hex.EncodeToString(sum[:8])
}
