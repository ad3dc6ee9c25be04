package lab

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Stamps is the file in which the workers of one supervisor note that they run. It is not safe for concurrent use.
type Stamps struct {
	Path string
	file *os.File
	rest []byte
	// pids is who each worker says it is, starts how often each has begun.
	pids   map[string]int
	starts map[string]int
	// init is the first process of the pid namespace that the workers run in, 0 where that is ours; outside is who
	// those that were asked for are in ours.
	init    int
	outside map[string]int
	// spoken counts the lines of talking workers.
	spoken map[string]int
	fresh  []Stamp
}

// Stamp is one start of a worker.
type Stamp struct {
	At  int64
	PID int
	ID  string
}

// NewStamps makes the file, or goes on with it.
func NewStamps(path string) (*Stamps, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o666)
	if err != nil {
		return nil, fmt.Errorf("cannot make the file of stamps: %w", err)
	}
	return &Stamps{
		Path: path, file: f, pids: map[string]int{}, outside: map[string]int{}, starts: map[string]int{},
		spoken: map[string]int{},
	}, nil
}

// Close ends the reading.
func (s *Stamps) Close() { s.file.Close() }

// read takes in what has come since the last time.
func (s *Stamps) read() error {
	buf := make([]byte, 1<<16)
	for {
		n, err := s.file.Read(buf)
		s.rest = append(s.rest, buf[:n]...)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("cannot read stamps: %w", err)
		}
	}
	for {
		line, rest, whole := bytes.Cut(s.rest, []byte("\n"))
		if !whole {
			return nil
		}
		s.rest = rest
		words := bytes.Fields(line)
		if len(words) != 3 {
			return fmt.Errorf("cannot read stamp %q", line)
		}
		pid, err := strconv.Atoi(string(words[1]))
		if err != nil {
			return fmt.Errorf("cannot read stamp %q: %w", line, err)
		}
		id := string(words[2])
		if string(words[0]) == "-" {
			s.spoken[id]++
			continue
		}
		at, err := strconv.ParseInt(string(words[0]), 10, 64)
		if err != nil {
			return fmt.Errorf("cannot read stamp %q: %w", line, err)
		}
		s.pids[id] = pid
		delete(s.outside, id)
		s.starts[id]++
		s.fresh = append(s.fresh, Stamp{at, pid, id})
	}
}

// Await waits for n starts that were not taken before, and takes all that are there.
func (s *Stamps) Await(n int, patience time.Duration) ([]Stamp, error) {
	until := time.Now().Add(patience)
	for {
		if err := s.read(); err != nil {
			return nil, err
		}
		if len(s.fresh) >= n {
			got := s.fresh
			s.fresh = nil
			return got, nil
		}
		if time.Now().After(until) {
			got := s.fresh
			s.fresh = nil
			return got, fmt.Errorf("only %d of %d workers have begun within %v", len(got), n, patience)
		}
		Pause(500 * time.Microsecond)
	}
}

// Taken takes all that are there.
func (s *Stamps) Taken() ([]Stamp, error) { return s.Await(0, 0) }

// Within says that the workers run in a pid namespace of their own, with this first process.
func (s *Stamps) Within(init int) { s.init = init }

// PID is who a worker is now, 0 for one that never ran; of one in another namespace also where it has ended.
func (s *Stamps) PID(id string) int {
	if s.init == 0 {
		return s.pids[id]
	}
	if _, known := s.outside[id]; !known {
		here := residents(s.init)
		for name, pid := range s.pids {
			if _, known := s.outside[name]; !known {
				s.outside[name] = here[pid]
			}
		}
	}
	return s.outside[id]
}

// residents returns who the processes of the pid namespace of init are in ours, by who they are in it.
func residents(init int) map[int]int {
	namespace, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", init))
	if err != nil {
		return nil
	}
	here := map[int]int{}
	dirs, _ := filepath.Glob("/proc/[0-9]*") // the pattern is right
	for _, dir := range dirs {
		if link, err := os.Readlink(dir + "/ns/pid"); err != nil || link != namespace {
			continue
		}
		status, err := os.ReadFile(dir + "/status")
		if err != nil {
			continue
		}
		_, line, _ := strings.Cut(string(status), "\nNSpid:")
		line, _, _ = strings.Cut(line, "\n")
		if words := strings.Fields(line); len(words) > 1 {
			inside, _ := strconv.Atoi(words[len(words)-1]) // it is a number
			here[inside], _ = strconv.Atoi(words[0])       // it is a number
		}
	}
	return here
}

// Starts counts how often a worker has begun.
func (s *Stamps) Starts(id string) int { return s.starts[id] }

// Spoken counts the lines of a talking worker.
func (s *Stamps) Spoken(id string) int { return s.spoken[id] }

// Crash kills workers at once and returns how long after that each of them runs again, in milliseconds, in the order in
// which they came back.
func (s *Stamps) Crash(patience time.Duration, ids ...string) ([]float64, error) {
	if _, err := s.Taken(); err != nil {
		return nil, err
	}
	fds := make([]int, 0, len(ids))
	defer func() {
		for _, fd := range fds {
			unix.Close(fd) //nolint:errcheck // nothing was written
		}
	}()
	for _, id := range ids {
		pid := s.PID(id)
		if pid <= 1 {
			return nil, fmt.Errorf("worker %s does not run", id)
		}
		fd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			return nil, fmt.Errorf("worker %s, pid %d: %w", id, pid, err)
		}
		fds = append(fds, fd)
	}
	began := Now()
	for _, fd := range fds {
		if err := unix.PidfdSendSignal(fd, syscall.SIGKILL, nil, 0); err != nil {
			return nil, fmt.Errorf("cannot kill a worker: %w", err)
		}
	}
	stamps, err := s.Await(len(ids), patience)
	back := make([]float64, 0, len(stamps))
	for _, st := range stamps {
		back = append(back, Milliseconds(st.At-began))
	}
	return back, err
}

// Milliseconds turns nanoseconds into them.
func Milliseconds(ns int64) float64 { return float64(ns) / 1e6 }
