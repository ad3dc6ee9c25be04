package logs

import (
	"os"

	"golang.org/x/sys/unix"
)

// ForbidHoles makes the file system one without holes.
func (k *Keeper) ForbidHoles() {
	k.punch = func(*os.File, int64, int64) error { return unix.EOPNOTSUPP }
}

// MaxMarks is the size of a file of marks from which it is thinned.
const MaxMarks = maxMarks

// ForbidWaiting makes each question return at once, as if too many waited for text.
func (k *Keeper) ForbidWaiting() {
	for range maxWaiting {
		k.waiting <- struct{}{}
	}
}
