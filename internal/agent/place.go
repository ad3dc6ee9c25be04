package agent

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"syscall"
)

// placeOf identifies this host and this data directory. A copy of the disk is on another machine or in another boot,
// and a copy of the directory is another inode. The result reveals nothing about the host.
func placeOf(dir, boot string) string {
	id, _ := os.ReadFile("/etc/machine-id") // a host without the file has only its boot id
	inode := ""
	if info, err := os.Stat(dir); err == nil {
		if sys, ok := info.Sys().(*syscall.Stat_t); ok {
			inode = fmt.Sprintf("%d:%d", sys.Dev, sys.Ino)
		}
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "drover place 1\n%s\n%s\n%s", id, boot, inode))
	return hex.EncodeToString(sum[:8])
}
