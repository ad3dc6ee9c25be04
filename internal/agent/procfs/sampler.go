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

	"drover/internal/agent/instance"
	"drover/internal/process"
)

const (
	// minWindow is the shortest time over which drover measures a share of the CPU: in a shorter time, one clock tick
	// would be a large share. A look within that time repeats the last figure.
	minWindow = time.Second
	// unaskedTime is how long the sampler remembers a process that nobody asks for.
	unaskedTime = 2 * time.Minute
	// handlesPart is the divisor of RLIMIT_NOFILE for handles.
	handlesPart = 4
)

// Sampler turns looks at processes into percentages of the whole machine. It remembers one sample per process until
// the process has ended or is forgotten. While it has descriptors to spare, it keeps the stat of each process open. It
// is safe for concurrent use.
type Sampler struct {
	fs   FS
	cpus int
	// maxHandles is the limit for handles.
	maxHandles int
	buffers    sync.Pool

	mu       sync.Mutex
	memTotal int64
	handles  int
	last     map[instance.Identity]*sample
}

// sample is one process.
type sample struct {
	mu      sync.Mutex
	handle  *handle // nil if not open
	gone    bool    // forgotten, or ended
	lastUse time.Time

	// The last result of Instance and its time; at is zero before the first.
	at        time.Time
	ticks     uint64
	cpu, mem  float64
	startedAt time.Time
	comm      string
	suspended bool
	since     time.Time // when suspended was first true
}

// NewSampler returns a sampler for a machine with that many processors.
func NewSampler(f FS, cpus int) *Sampler {
	s := &Sampler{fs: f, cpus: max(cpus, 1), last: make(map[instance.Identity]*sample)}
	s.buffers.New = func() any { return new([statSize]byte) }
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err == nil {
		s.maxHandles = int(min(limit.Cur, 1<<20) / handlesPart) //nolint:gosec // small
	}
	return s
}

// Instance describes the process id, and reports like Glance whether the description has moved. CPU covers the time
// since the last Instance at least a second ago; at the first look it covers the whole life of the process. Version
// and Health stay empty. The error is fs.ErrNotExist if the process has ended.
func (s *Sampler) Instance(id instance.Identity) (i process.Instance, moved bool, err error) {
	p, stat, err := s.statAlive(id)
	if err != nil {
		return process.Instance{}, false, fmt.Errorf("cannot sample process %d: %w", id.PID, err)
	}
	args := s.fs.Args(id.PID)
	total, err := s.memory()
	if err != nil {
		return process.Instance{}, false, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.startedAt.IsZero() {
		// Keep it, so that corrections of the clock do not change the start time of a process.
		if p.startedAt, err = s.fs.StartTime(id.StartTicks); err != nil {
			return process.Instance{}, false, err
		}
	}
	moved = s.moved(p, stat, total)
	now := time.Now()
	elapsed := max(now.Sub(p.startedAt), 0)
	ticks := stat.UserTicks + stat.SystemTicks
	average := s.share(ticks, elapsed)
	if stat.Suspended() && !p.suspended {
		p.since = now
	}
	p.mem, p.comm, p.suspended = memShare(stat.RSS, total), stat.Comm, stat.Suspended()
	switch window := now.Sub(p.at); {
	case p.at.IsZero():
		p.at, p.ticks, p.cpu = now, ticks, average
	case window >= minWindow:
		p.cpu = s.share(ticks-min(p.ticks, ticks), window)
		p.at, p.ticks = now, ticks
	}
	since := int64(0)
	if p.suspended {
		since = p.since.UnixMilli()
	}
	return process.Instance{
		PID:        id.PID,
		Cmdline:    commandLine(stat.Comm, args),
		Stat:       string(stat.State),
		Halted:     since,
		StartedAt:  p.startedAt.Unix(),
		Elapsed:    int64(elapsed / time.Second),
		CPU:        p.cpu,
		CPUAverage: average,
		Mem:        p.mem,
		RSS:        stat.RSS >> 10,
		VSize:      stat.VSize >> 10,
		UserTime:   float64(stat.UserTicks) / instance.TicksPerSecond,
		SystemTime: float64(stat.SystemTicks) / instance.TicksPerSecond,
		Threads:    stat.Threads,
	}, moved, nil
}

// Use is the use of a process: CPU time in all its life, and memory now, in bytes.
type Use struct {
	CPU time.Duration
	RSS int64
}

// Use returns only the CPU time and the memory of a process. It takes one system call if the handle is open. The error
// is fs.ErrNotExist if the process has ended.
func (s *Sampler) Use(id instance.Identity) (Use, error) {
	_, stat, err := s.statAlive(id)
	if err != nil {
		return Use{}, fmt.Errorf("cannot sample process %d: %w", id.PID, err)
	}
	return Use{CPU: ticksDuration(stat.UserTicks + stat.SystemTicks), RSS: stat.RSS}, nil
}

// Glance reports whether a process is alive. moved reports whether its name, its use of CPU or memory, or whether a
// signal has stopped it differs from the last Instance, or whether there was no Instance yet. It costs as little as
// Use.
func (s *Sampler) Glance(id instance.Identity) (alive, moved bool) {
	p, stat, err := s.statAlive(id)
	if err != nil {
		return false, false
	}
	total, err := s.memory()
	if err != nil {
		return true, true // Instance returns the error
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return true, s.moved(p, stat, total)
}

// moved compares a look with the last Instance. The caller holds the lock of the sample.
func (s *Sampler) moved(p *sample, stat Stat, total int64) bool {
	window := time.Since(p.at)
	if p.at.IsZero() || p.comm != stat.Comm || p.suspended != stat.Suspended() {
		return true
	}
	if window < minWindow {
		return false
	}
	ticks := stat.UserTicks + stat.SystemTicks
	now := process.Usage{CPU: s.share(ticks-min(p.ticks, ticks), window), Mem: memShare(stat.RSS, total)}
	return now.MovedFrom(process.Usage{CPU: p.cpu, Mem: p.mem})
}

// statAlive checks whether the process id is alive. It reads as little as possible, because it runs for every process
// of the host.
func (s *Sampler) statAlive(id instance.Identity) (*sample, Stat, error) {
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

func (s *Sampler) sampleOf(id instance.Identity) *sample {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.last[id]
	if p == nil {
		p = &sample{}
		s.last[id] = p
	}
	return p
}

// stat reads through the handle of the process. It opens a handle if there is none and the limit allows one.
func (s *Sampler) stat(p *sample, pid int) (Stat, error) {
	buf := s.buffers.Get().(*[statSize]byte) //nolint:errcheck,forcetypeassert // the pool holds nothing else
	defer s.buffers.Put(buf)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lastUse = time.Now()
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

// hold adds n to the number of handles. It reports false and adds nothing if that exceeds the limit.
func (s *Sampler) hold(n int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.handles+n > s.maxHandles {
		return false
	}
	s.handles += n
	return true
}

// Forget drops the sample of a process.
func (s *Sampler) Forget(id instance.Identity) {
	s.mu.Lock()
	p := s.last[id]
	delete(s.last, id)
	s.mu.Unlock()
	if p != nil {
		s.drop(p)
	}
}

// drop closes the handle of a process that is no longer in the table.
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

// Tidy forgets the processes that nobody asked for lately.
func (s *Sampler) Tidy() {
	for id, p := range s.all() {
		p.mu.Lock()
		unasked := time.Since(p.lastUse) > unaskedTime
		p.mu.Unlock()
		if unasked {
			s.Forget(id)
		}
	}
}

func (s *Sampler) all() map[instance.Identity]*sample {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.last)
}

// memory returns the memory of the machine, which it reads once.
func (s *Sampler) memory() (total int64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.memTotal == 0 {
		s.memTotal, err = s.fs.MemTotal()
	}
	return s.memTotal, err
}

// share returns ticks as a percentage of the machine's CPUs over that time, from 0 to 100.
func (s *Sampler) share(ticks uint64, over time.Duration) float64 {
	// The use of a process younger than a tick is not measurable.
	over = max(over, time.Second/instance.TicksPerSecond)
	return min(round(100*float64(ticks)/instance.TicksPerSecond/over.Seconds()/float64(s.cpus)), 100)
}

func memShare(rss, total int64) float64 { return round(100 * float64(rss) / float64(max(total, 1))) }

func round(percent float64) float64 { return math.Round(percent*100) / 100 }

// commandLine joins the arguments as ps does; a process without arguments shows its name in brackets.
func commandLine(comm string, args []string) string {
	line := strings.TrimSpace(strings.Join(args, " "))
	if line == "" {
		return "[" + comm + "]"
	}
	return strings.ToValidUTF8(line, "\uFFFD")
}
