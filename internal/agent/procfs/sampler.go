package procfs

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"strings"
	"sync"
	"syscall"
	"time"

	"drover/internal/process"
)

const (
	// minWindow is the shortest time that a share of the processor is measured over: within less, one tick of the clock
	// would show as a large share. Looks in between repeat the last figure.
	minWindow = time.Second
	// unaskedTime is how long what is known of a process is kept that nobody asks for.
	unaskedTime = 2 * time.Minute
	// heldPart is how much of the descriptors that this process may have are used to hold handles.
	heldPart = 4
)

// Sampler turns looks at processes into percentages of the whole machine. It remembers one sample per process that it
// was asked for, and holds its stat open as long as there are descriptors, until that process has ended or is
// forgotten. It may be used concurrently.
type Sampler struct {
	fs   FS
	cpus int
	// held bounds the handles.
	held    int
	buffers sync.Pool

	mu       sync.Mutex
	memTotal int64
	handles  int
	last     map[Identity]*sample
}

// sample is one process.
type sample struct {
	mu     sync.Mutex
	handle *handle // nil where none is held
	gone   bool    // forgotten, or found to have ended
	asked  time.Time

	// What Instance said last, and when; at is zero before that.
	at        time.Time
	ticks     uint64
	cpu, mem  float64
	startedAt time.Time
	comm      string
}

// NewSampler returns a sampler for a machine with that many processors.
func NewSampler(f FS, cpus int) *Sampler {
	s := &Sampler{fs: f, cpus: max(cpus, 1), last: make(map[Identity]*sample)}
	s.buffers.New = func() any { return new([statSize]byte) }
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err == nil {
		s.held = int(min(limit.Cur, 1<<20) / heldPart) //nolint:gosec // small
	}
	return s
}

// Instance looks at the process that id names, and reports as Glance does whether what it says has moved. CPU covers
// the time since the last Instance at least a second before, at the first look the whole life of the process. Version
// and Health stay empty. The error is fs.ErrNotExist when the process has ended.
func (s *Sampler) Instance(id Identity) (i process.Instance, moved bool, err error) {
	p, stat, err := s.look(id)
	if err != nil {
		return process.Instance{}, false, fmt.Errorf("cannot sample process %d: %w", id.PID, err)
	}
	args := s.fs.args(id.PID)
	total, err := s.memory()
	if err != nil {
		return process.Instance{}, false, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.startedAt.IsZero() {
		// Kept, so that the start time of a process does not waver with the clock's corrections.
		if p.startedAt, err = s.fs.StartTime(id.StartTicks); err != nil {
			return process.Instance{}, false, err
		}
	}
	moved = s.moved(p, stat, total)
	now := time.Now()
	elapsed := max(now.Sub(p.startedAt), 0)
	ticks := stat.UserTicks + stat.SystemTicks
	average := s.share(ticks, elapsed)
	p.mem, p.comm = memShare(stat.RSS, total), stat.Comm
	switch window := now.Sub(p.at); {
	case p.at.IsZero():
		p.at, p.ticks, p.cpu = now, ticks, average
	case window >= minWindow:
		p.cpu = s.share(ticks-min(p.ticks, ticks), window)
		p.at, p.ticks = now, ticks
	}
	return process.Instance{
		PID:        id.PID,
		Cmdline:    commandLine(stat.Comm, args),
		Stat:       string(stat.State),
		StartedAt:  p.startedAt.Unix(),
		Elapsed:    int64(elapsed / time.Second),
		CPU:        p.cpu,
		CPUAverage: average,
		Mem:        p.mem,
		RSS:        stat.RSS >> 10,
		VSize:      stat.VSize >> 10,
		UserTime:   float64(stat.UserTicks) / TicksPerSecond,
		SystemTime: float64(stat.SystemTicks) / TicksPerSecond,
		Threads:    stat.Threads,
	}, moved, nil
}

// Use is what a process has taken: processor time in all its life, and memory now, in bytes.
type Use struct {
	CPU time.Duration
	RSS int64
}

// Use looks at what a process takes and at nothing else: one system call, where its handle is held. The error is
// fs.ErrNotExist when the process has ended.
func (s *Sampler) Use(id Identity) (Use, error) {
	_, stat, err := s.look(id)
	if err != nil {
		return Use{}, fmt.Errorf("cannot sample process %d: %w", id.PID, err)
	}
	return Use{CPU: ticksDuration(stat.UserTicks + stat.SystemTicks), RSS: stat.RSS}, nil
}

// Glance reports whether a process is alive, and whether its name or its use of the processor or of memory is another
// one than Instance said last, or nothing was said yet. It costs as little as Use.
func (s *Sampler) Glance(id Identity) (alive, moved bool) {
	p, stat, err := s.look(id)
	if err != nil {
		return false, false
	}
	total, err := s.memory()
	if err != nil {
		return true, true // Instance says why
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return true, s.moved(p, stat, total)
}

// moved compares a look with what Instance said last. The lock of the sample is held.
func (s *Sampler) moved(p *sample, stat Stat, total int64) bool {
	window := time.Since(p.at)
	if p.at.IsZero() || p.comm != stat.Comm {
		return true
	}
	if window < minWindow {
		return false
	}
	ticks := stat.UserTicks + stat.SystemTicks
	now := process.Usage{CPU: s.share(ticks-min(p.ticks, ticks), window), Mem: memShare(stat.RSS, total)}
	return now.MovedFrom(process.Usage{CPU: p.cpu, Mem: p.mem})
}

// look sees whether the process that id names is alive. It reads as little as it can: it is done for every process of
// the host.
func (s *Sampler) look(id Identity) (*sample, Stat, error) {
	boot, err := s.fs.BootID()
	if err != nil {
		return nil, Stat{}, err
	}
	if id.PID <= 1 || boot != id.BootID {
		return nil, Stat{}, fs.ErrNotExist
	}
	p := s.sampleOf(id)
	stat, err := s.stat(p, id.PID)
	if err == nil && (stat.StartTicks != id.StartTicks || stat.Zombie()) {
		err = fs.ErrNotExist
	}
	if errors.Is(err, fs.ErrNotExist) {
		s.Forget(id)
	}
	return p, stat, err
}

func (s *Sampler) sampleOf(id Identity) *sample {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.last[id]
	if p == nil {
		p = &sample{}
		s.last[id] = p
	}
	return p
}

// stat reads by the handle of the process, which is opened if there is none and may be one.
func (s *Sampler) stat(p *sample, pid int) (Stat, error) {
	buf := s.buffers.Get().(*[statSize]byte) //nolint:errcheck,forcetypeassert // nothing else is in it
	defer s.buffers.Put(buf)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked = time.Now()
	if p.handle != nil {
		return p.handle.read(buf[:])
	}
	h, err := s.fs.openStat(pid)
	if err != nil {
		return Stat{}, err
	}
	stat, err := h.read(buf[:])
	if err == nil && !p.gone && s.hold(1) {
		p.handle = &h
	} else {
		h.close()
	}
	return stat, err
}

// hold counts the handles and reports whether there may be as many.
func (s *Sampler) hold(n int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.handles+n > s.held {
		return false
	}
	s.handles += n
	return true
}

// Forget drops what is remembered of a process.
func (s *Sampler) Forget(id Identity) {
	s.mu.Lock()
	p := s.last[id]
	delete(s.last, id)
	s.mu.Unlock()
	if p != nil {
		s.drop(p)
	}
}

// drop gives back the handle of a process that is not remembered any more.
func (s *Sampler) drop(p *sample) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.gone = true
	if p.handle != nil {
		p.handle.close()
		p.handle = nil
		s.hold(-1)
	}
}

// Tidy forgets the processes that nobody has asked for lately.
func (s *Sampler) Tidy() {
	for id, p := range s.all() {
		p.mu.Lock()
		unasked := time.Since(p.asked) > unaskedTime
		p.mu.Unlock()
		if unasked {
			s.Forget(id)
		}
	}
}

func (s *Sampler) all() map[Identity]*sample {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.last)
}

// memory returns the size of the machine's memory, which is read once.
func (s *Sampler) memory() (total int64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.memTotal == 0 {
		s.memTotal, err = s.fs.MemTotal()
	}
	return s.memTotal, err
}

// share returns which part of the machine's processors ticks are, over that time, in percent from 0 to 100.
func (s *Sampler) share(ticks uint64, over time.Duration) float64 {
	// A process younger than a tick has used nothing that could be measured.
	over = max(over, time.Second/TicksPerSecond)
	return min(round(100*float64(ticks)/TicksPerSecond/over.Seconds()/float64(s.cpus)), 100)
}

func memShare(rss, total int64) float64 { return round(100 * float64(rss) / float64(max(total, 1))) }

func round(percent float64) float64 { return math.Round(percent*100) / 100 }

// commandLine joins the arguments as ps does; a process without any shows its name in brackets.
func commandLine(comm string, args []string) string {
	line := strings.TrimSpace(strings.Join(args, " "))
	if line == "" {
		return "[" + comm + "]"
	}
	return strings.ToValidUTF8(line, "\uFFFD")
}
