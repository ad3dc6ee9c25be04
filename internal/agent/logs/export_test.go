package logs

import (
	"os"
	"time"

	"golang.org/x/sys/unix"

	"drover/internal/process"
)

// Look looks at the log of a process, if it has one, in place of the watching thread.
func (store *Store) Look(id process.ID) {
	if l := store.of(process.Hash(id)); l != nil {
		for _, s := range l.streams {
			store.boundAndMark(s, time.Now(), latestPause)
		}
	}
}

// ForbidHoles makes the file system one without holes.
func (store *Store) ForbidHoles() {
	store.punch = func(*os.File, int64, int64) error { return unix.EOPNOTSUPP }
}

// ForbidSplice makes the file system one that cannot take text from a pipe by itself.
func (store *Store) ForbidSplice() {
	store.splice = func(int, int, int64) (int, error) { return 0, unix.EINVAL }
}

// MaxMarks is the size of a file of marks from which it is thinned.
const MaxMarks = maxMarks

// ForbidWaiting makes each question return at once, as if too many waited for text.
func (store *Store) ForbidWaiting() {
	for range maxWaiting {
		store.waiting <- struct{}{}
	}
}

// Search holds the only place of searches until leave is called.
func (store *Store) Search() (leave func()) {
	store.searching <- struct{}{}
	return func() { <-store.searching }
}

// SearchFor sets how long one question searches.
func (store *Store) SearchFor(d time.Duration) { store.searchFor = d }

// Rests reports whether the watching thread looks at no log before the next write.
func (store *Store) Rests() bool {
	store.mu.Lock()
	defer store.mu.Unlock()
	return len(store.watched) == streams*len(store.logs)
}
