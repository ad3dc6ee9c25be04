// Package logs keeps what foreground processes write. A process writes to two files, stdout and stderr, by descriptors
// of its own: nothing of drover stands between. The package bounds these files while they are written, rotates them,
// notes when runs begin and when text arrived, and answers questions about the text.
//
// A file is cut at its beginning by a hole, so no writer notices. All offsets count the bytes that the stream ever had.
// What was rotated is freed after the rotated file is complete. What a flood left no time to rotate is freed at once,
// and noted as lost.
package logs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"drover/internal/agent/inotify"
	"drover/internal/process"
	"drover/internal/spec"
)

// The streams of a process, as indexes of streamNames.
const (
	stdout = iota
	stderr
	streams
)

func streamNames() [streams]string { return [streams]string{"stdout", "stderr"} }

const (
	// temporary is the end of the name of a file that is not complete.
	temporary = ".tmp"
	boundFile = "bound"
	// The defaults and the least of process.LogPolicy.
	defaultSize = 10 << 20
	leastSize   = 64 << 10
	defaultKeep = 5
	defaultAge  = 30 * 24 * time.Hour
	// unusedFor is how long the log of an unregistered process stays after its last byte.
	unusedFor = 10 * time.Minute
	// tidyEvery is the interval between looks for rotated files that are too old.
	tidyEvery = time.Hour
)

// bound is what a log may hold, whose it is, and where its files begin. It is in a file of the log, for the next agent.
type bound struct {
	Process process.ID    `json:"process"`
	MaxSize int64         `json:"max_size"`
	Keep    int           `json:"keep"`
	MaxAge  time.Duration `json:"max_age"`
	Plain   bool          `json:"plain,omitempty"`
	// Longest is how long a file may become, holes included.
	Longest int64 `json:"longest"`
	// Base is the offset of the first byte of each file. It is not 0 after a file was truncated.
	Base [streams]int64 `json:"base"`
}

// boundOf returns the bound of the logs of a process.
func boundOf(id process.ID, s *process.Spec) bound {
	size, files, age := s.Log.Keeps()
	b := bound{
		Process: id, MaxSize: max(size, leastSize), Keep: max(files, 0), MaxAge: age, Plain: s.Log.Plain(),
		Longest: longestFile,
	}
	// The kernel would end a process whose log is longer.
	if longest, limited := s.RLimits().Get(spec.FileSize); limited && longest != process.Unlimited {
		b.Longest = min(b.Longest, max(longest, leastSize))
		b.MaxSize = min(b.MaxSize, b.Longest/8)
	}
	return b
}

// all is how many bytes a file and its rotated files may have, before compression.
func (b bound) all() int64 {
	if int64(b.Keep) >= longestFile/b.MaxSize {
		return longestFile
	}
	return b.MaxSize * int64(1+b.Keep)
}

// Store keeps the logs of a host. It is safe for concurrent use.
type Store struct {
	dir    string
	log    *slog.Logger
	events *inotify.Events // nil if the kernel cannot report writes
	// reading bounds how many questions read at the same time, searching how many search, and waiting how many wait for
	// text.
	reading, searching, waiting chan struct{}
	searchFor                   time.Duration
	// files bounds how many log files of processes are read at the same time: a file system may hang.
	files    chan struct{}
	rotating sync.WaitGroup
	pumping  sync.WaitGroup
	stopping atomic.Bool
	tidied   time.Time // of Sweep
	// punch frees a part of a file.
	punch func(file *os.File, from, to int64) error
	// splice moves text from a pipe to a place of a file.
	splice func(from, to int, at int64) (int, error)

	mu sync.Mutex
	// logs has the logs by the first twelve letters of the hash of the process.
	logs map[string]*processLog
	// watched are the streams that wait for the next write, by their watch; woken are those to look at.
	watched map[int]*stream
	woken   []*stream
	queue   []*stream // to rotate
	working bool
	running bool            // Run has begun and not ended
	during  context.Context //nolint:containedctx // of Run
}

// processLog is the log of one process.
type processLog struct {
	dir     string
	streams [streams]*stream

	names sync.Mutex // for the names of the files
	mu    sync.Mutex // for the files of bound and marks, and all below
	bound bound
	// known says that number and run are those of the last run.
	known  bool
	number int
	run    string
	// marked are the lengths in the last mark.
	marked [streams]int64
	// marks is the size of the file of marks.
	marks int64
	// pipes are those that somebody may still write to.
	pipes []*pipe
}

// Open takes over the logs in a directory, which it makes. It cuts at once a file that holds more than a log with all
// its rotated files: its process wrote while no agent was running. Logs are bounded only during Run.
func Open(dir string, log *slog.Logger) (*Store, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("cannot create directory for logs: %w", err)
	}
	k := &Store{
		dir: dir, log: log, logs: map[string]*processLog{}, watched: map[int]*stream{},
		punch: punch, splice: splice, reading: make(chan struct{}, maxReading),
		searching: make(chan struct{}, 1), searchFor: searchFor,
		waiting: make(chan struct{}, maxWaiting), files: make(chan struct{}, maxFiles),
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("cannot list logs: %w", err)
	}
	for _, e := range entries {
		if l, err := openLog(filepath.Join(dir, e.Name())); err != nil {
			log.Warn("cannot open log", "log", e.Name(), "error", err)
		} else {
			k.logs[prefix(e.Name())] = l
			k.adopt(l)
			if err := l.resumePipes(); err != nil {
				log.Warn("cannot read what a process writes", "log", e.Name(), "error", err)
			}
		}
	}
	return k, nil
}

// prefix is the part of the hash of a process that begins the ids of its runs.
func prefix(hash string) string { return hash[:min(len(hash), 12)] }

// openLog opens the log of an earlier agent.
func openLog(dir string) (*processLog, error) {
	var b bound
	text, err := os.ReadFile(filepath.Join(dir, boundFile))
	if err == nil {
		err = json.Unmarshal(text, &b)
	}
	if errors.Is(err, fs.ErrNotExist) || err == nil && (b.MaxSize <= 0 || b.Longest <= 0) {
		b, err = boundOf(process.ID{}, &process.Spec{}), nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read the bound of a log: %w", err)
	}
	l := newLog(dir, b)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("cannot list a log: %w", err)
	}
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), temporary) {
			_ = os.Remove(filepath.Join(dir, e.Name())) // an unfinished copy of text that is still there
		}
	}
	if err := endLine(filepath.Join(dir, marksFile)); err != nil {
		return nil, err
	}
	if info, err := os.Stat(filepath.Join(dir, marksFile)); err == nil {
		l.marks = info.Size()
	}
	for _, s := range l.streams {
		if err := s.resume(); err != nil {
			return nil, err
		}
	}
	return l, nil
}

func newLog(dir string, b bound) *processLog {
	l := &processLog{dir: dir, bound: b}
	for i, name := range streamNames() {
		l.streams[i] = &stream{log: l, index: i, name: name, path: filepath.Join(dir, name)}
		l.streams[i].base.Store(b.Base[i])
		l.streams[i].freed.Store(b.Base[i])
	}
	return l
}

// adopt cuts a log that grew while no agent was running to what Run can rotate and keep.
func (store *Store) adopt(l *processLog) {
	limits := l.limits()
	for _, s := range l.streams {
		store.drop(s, s.size.Load()-limits.all())
		s.room.Store(limits.all() - limits.MaxSize)
		s.stamped = s.size.Load()
	}
}

// Begin notes that a run of a process begins, and returns the files for its output: files open for appending only, or
// pipes if the spec wants them. The caller closes them.
func (store *Store) Begin(id process.ID, run string, spec *process.Spec) (out, errs *os.File, err error) {
	l, err := store.logFor(process.Hash(id), boundOf(id, spec))
	if err != nil {
		return nil, nil, err
	}
	var files [streams]*os.File
	store.drain(l) // before the marks of the run
	open := store.open
	if spec.Log.Pipes() {
		open = func(s *stream) (*os.File, error) { return store.pipeTo(s, run) }
	}
	for i, s := range l.streams {
		if files[i], err = open(s); err != nil {
			if i > 0 {
				_ = files[0].Close()
			}
			return nil, nil, fmt.Errorf("cannot open log: %w", err)
		}
	}
	if err := l.begin(run, time.Now()); err != nil {
		store.log.Warn("cannot note the begin of a run", "run", run, "error", err)
	}
	for _, s := range l.streams {
		store.arm(s)
	}
	return files[stdout], files[stderr], nil
}

// logFor returns the log of a process with this bound.
func (store *Store) logFor(hash string, b bound) (*processLog, error) {
	store.mu.Lock()
	l := store.logs[prefix(hash)]
	if l == nil {
		l = newLog(filepath.Join(store.dir, hash), b)
		if err := makeDirectory(l.dir); err != nil {
			store.mu.Unlock()
			return nil, err
		}
		store.logs[prefix(hash)] = l
		store.mu.Unlock()
		return l, l.store(b, true)
	}
	store.mu.Unlock()
	if err := makeDirectory(l.dir); err != nil {
		return nil, err
	}
	return l, l.store(b, false)
}

// makeDirectory makes the directory of a log, also where somebody has put something else in its place.
func makeDirectory(dir string) error {
	if info, err := os.Stat(dir); err == nil && !info.IsDir() { // a link to a directory is a choice
		_ = os.Remove(dir) // else the next call says why not
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("cannot create log: %w", err)
	}
	return nil
}

// of returns the log that has a run, or nil.
func (store *Store) of(run string) *processLog {
	store.mu.Lock()
	defer store.mu.Unlock()
	return store.logs[prefix(run)]
}

// Bound sets how much the log of a process may hold, if it has a log. It costs nothing if that is so already.
func (store *Store) Bound(id process.ID, spec *process.Spec) {
	l := store.of(process.Hash(id))
	if l == nil {
		return
	}
	if err := l.store(boundOf(id, spec), false); err != nil {
		store.log.Warn("cannot store the bound of a log", "process", id, "error", err)
	}
	for _, s := range l.streams { // the process may write nothing more
		if s.size.Load()-s.freed.Load() > l.limits().MaxSize {
			store.rotate(s)
		}
	}
}

// store sets the bound and stores it if it has changed or must.
func (l *processLog) store(b bound, must bool) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	b.Base = l.bound.Base
	if b == l.bound && !must {
		return nil
	}
	l.bound = b
	return l.write()
}

// write stores the bound; the caller holds the lock.
func (l *processLog) write() error {
	text, err := json.Marshal(l.bound)
	path := filepath.Join(l.dir, boundFile)
	if err == nil {
		err = os.WriteFile(path+temporary, text, 0o600)
	}
	if err == nil {
		err = os.Rename(path+temporary, path)
	}
	if err != nil {
		return fmt.Errorf("cannot store the bound of a log: %w", err)
	}
	return nil
}

func (l *processLog) limits() bound {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.bound
}

// Discard forgets a run that has not begun. It does nothing for a run that has written something.
func (store *Store) Discard(run string) {
	l := store.of(run)
	if l == nil {
		return
	}
	if err := l.discard(run); err != nil {
		store.log.Warn("cannot forget a run", "run", run, "error", err)
	}
}

// Run bounds the logs until ctx ends.
func (store *Store) Run(ctx context.Context) error {
	events, err := inotify.Open()
	if err != nil {
		store.log.Warn("looking at logs at intervals only", "interval", slowest, "error", err)
	} else {
		defer events.Close()
		stop := context.AfterFunc(ctx, events.Stop)
		defer stop()
	}
	defer store.rotating.Wait()
	stop := context.AfterFunc(ctx, func() { store.stopping.Store(true) })
	defer stop()
	store.mu.Lock()
	store.events, store.running, store.during = events, true, ctx
	for _, l := range store.logs {
		store.woken = append(store.woken, l.streams[:]...)
	}
	store.mu.Unlock()
	store.everyPipe(store.startPump)
	defer func() {
		store.mu.Lock()
		store.events, store.running = nil, false
		store.mu.Unlock()
		store.haltPumps()
	}()
	ended := make(chan error, 1)
	go func() { ended <- store.watch(ctx, events) }()
	return <-ended
}

// Sweep removes the logs of processes that nobody knows and nobody writes to, and rotated files that are too old.
func (store *Store) Sweep(known []process.ID) {
	hashes := make(map[string]bool, len(known))
	for _, id := range known {
		hashes[prefix(process.Hash(id))] = true
	}
	tidy := time.Since(store.tidied) >= tidyEvery
	if tidy {
		store.tidied = time.Now()
	}
	store.mu.Lock()
	all := make(map[string]*processLog, len(store.logs))
	maps.Copy(all, store.logs)
	store.mu.Unlock()
	for name, l := range all {
		switch {
		case !hashes[name] && l.unused():
			store.remove(name, l)
		case tidy:
			for _, s := range l.streams {
				store.prune(s)
			}
		}
	}
}

// unused reports whether nobody has written to a log for some time, and nobody can write now.
func (l *processLog) unused() bool {
	if len(l.openPipes()) > 0 {
		return false
	}
	for _, s := range l.streams {
		if info, err := os.Stat(s.path); err == nil &&
			(time.Since(info.ModTime()) < unusedFor || stillWritten(s.path)) {
			return false
		}
	}
	info, err := os.Stat(l.dir)
	return err != nil || time.Since(info.ModTime()) >= unusedFor
}

func (store *Store) remove(name string, l *processLog) {
	store.mu.Lock()
	defer store.mu.Unlock()
	delete(store.logs, name)
	if err := os.RemoveAll(l.dir); err != nil {
		store.log.Warn("cannot remove log", "log", name, "error", err)
	}
}

// stillWritten reports whether somebody has a file open for writing: the kernel then grants no read lease.
func stillWritten(path string) bool {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return false
	}
	defer f.Close() //nolint:errcheck // nothing was written
	_, err = unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_RDLCK)
	return errors.Is(err, unix.EAGAIN)
}
