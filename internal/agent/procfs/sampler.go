package procfs

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"strings"
	"sync"
	"time"

	"drover/internal/process"
)

// minWindow is the shortest time that a share of the processor is measured over: within less, one tick of the clock would
// show as a large share. Looks in between repeat the last figure.
const minWindow = time.Second

// Sampler turns two looks at a process into percentages of the whole machine. It remembers one sample per process that it
// was asked for, until that process has ended or is forgotten. It may be used concurrently.
type Sampler struct {
	fs   FS
	cpus int

	mu       sync.Mutex
	memTotal int64
	last     map[Identity]*sample
}

type sample struct {
	at        time.Time
	ticks     uint64
	cpu       float64
	startedAt time.Time
}

// NewSampler returns a sampler for a machine with that many processors.
func NewSampler(f FS, cpus int) *Sampler {
	return &Sampler{fs: f, cpus: max(cpus, 1), last: make(map[Identity]*sample)}
}

// Instance looks at the process that id names. CPU covers the time since the last look at least a second before, at the
// first look the whole life of the process. Version and Health stay empty. The error is fs.ErrNotExist when the process has
// ended.
func (s *Sampler) Instance(id Identity) (process.Instance, error) {
	info, err := s.look(id)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			s.Forget(id)
		}
		return process.Instance{}, fmt.Errorf("cannot sample process %d: %w", id.PID, err)
	}
	args := s.fs.args(id.PID)

	s.mu.Lock()
	defer s.mu.Unlock()
	if s.memTotal == 0 {
		if s.memTotal, err = s.fs.MemTotal(); err != nil {
			return process.Instance{}, err
		}
	}
	now := time.Now()
	prev := s.last[id]
	if prev == nil {
		started, err := s.fs.StartTime(id.StartTicks)
		if err != nil {
			return process.Instance{}, err
		}
		// Kept, so that the start time of a process does not waver with the clock's corrections.
		prev = &sample{startedAt: started}
		s.last[id] = prev
	}
	elapsed := max(now.Sub(prev.startedAt), 0)
	ticks := info.UserTicks + info.SystemTicks
	average := s.share(ticks, elapsed)
	switch window := now.Sub(prev.at); {
	case prev.at.IsZero():
		prev.at, prev.ticks, prev.cpu = now, ticks, average
	case window >= minWindow:
		prev.cpu = s.share(ticks-min(prev.ticks, ticks), window)
		prev.at, prev.ticks = now, ticks
	}
	return process.Instance{
		PID:        id.PID,
		Cmdline:    commandLine(info.Comm, args),
		Stat:       string(info.State),
		StartedAt:  prev.startedAt.Unix(),
		Elapsed:    int64(elapsed / time.Second),
		CPU:        prev.cpu,
		CPUAverage: average,
		Mem:        round(100 * float64(info.RSS) / float64(s.memTotal)),
		RSS:        info.RSS >> 10,
		VSize:      info.VSize >> 10,
		UserTime:   float64(info.UserTicks) / TicksPerSecond,
		SystemTime: float64(info.SystemTicks) / TicksPerSecond,
		Threads:    info.Threads,
	}, nil
}

// look reads as little as it can: it is done for every process of the host.
func (s *Sampler) look(id Identity) (Stat, error) {
	boot, err := s.fs.BootID()
	if err != nil {
		return Stat{}, err
	}
	if id.PID <= 1 || boot != id.BootID {
		return Stat{}, fs.ErrNotExist
	}
	st, err := s.fs.Stat(id.PID)
	if err == nil && (st.StartTicks != id.StartTicks || st.Zombie()) {
		err = fs.ErrNotExist
	}
	return st, err
}

// Forget drops what is remembered of a process.
func (s *Sampler) Forget(id Identity) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.last, id)
}

// share returns which part of the machine's processors ticks are, over that time, in percent from 0 to 100.
func (s *Sampler) share(ticks uint64, over time.Duration) float64 {
	// A process younger than a tick has used nothing that could be measured.
	over = max(over, time.Second/TicksPerSecond)
	return min(round(100*float64(ticks)/TicksPerSecond/over.Seconds()/float64(s.cpus)), 100)
}

func round(percent float64) float64 { return math.Round(percent*100) / 100 }

// commandLine joins the arguments as ps does; a process without any shows its name in brackets.
func commandLine(comm string, args []string) string {
	line := strings.TrimSpace(strings.Join(args, " "))
	if line == "" {
		return "[" + comm + "]"
	}
	return strings.ToValidUTF8(line, "\uFFFD")
}
