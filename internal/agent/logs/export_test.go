package logs

import (
	"os"
	"time"

	"golang.org/x/sys/unix"

	"drover/internal/process"
)

// Look looks at the log of a process, if it has one, in place of the watching thread.
func (k *Keeper) Look(id process.ID) {
	if l := k.of(process.Hash(id)); l != nil {
		for _, s := range l.streams {
			k.look(s, time.Now(), latestPause)
		}
	}
}

// ForbidHoles makes the file system one without holes.
func (k *Keeper) ForbidHoles() {
	k.punch = func(*os.File, int64, int64) error { return unix.EOPNOTSUPP }
}

// ForbidSplice makes the file system one that cannot take text from a pipe by itself.
func (k *Keeper) ForbidSplice() {
	k.splice = func(int, int, int64) (int, error) { return 0, unix.EINVAL }
}

// MaxMarks is the size of a file of marks from which it is thinned.
const MaxMarks = maxMarks

// ForbidWaiting makes each question return at once, as if too many waited for text.
func (k *Keeper) ForbidWaiting() {
	for range maxWaiting {
		k.waiting <- struct{}{}
	}
}

// Search holds the only place of searches until leave is called.
func (k *Keeper) Search() (leave func()) {
	k.searching <- struct{}{}
	return func() { <-k.searching }
}

// SearchFor sets how long one question searches.
func (k *Keeper) SearchFor(d time.Duration) { k.searchFor = d }

// Rests reports whether the watching thread looks at no log before the next write.
func (k *Keeper) Rests() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.watched) == streams*len(k.logs)
}
