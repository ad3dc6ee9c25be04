package lab

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Stamps is the file in which the workers of one supervisor note that they run. It is not safe for concurrent use.
type Stamps struct {
	Path string
	file *os.File
	rest []byte
	// pids is who each worker is now, starts how often each has begun.
	pids   map[string]int
	starts map[string]int
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
	return &Stamps{Path: path, file: f, pids: map[string]int{}, starts: map[string]int{}, spoken: map[string]int{}}, nil
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

// PID is who a worker is now, 0 for one that never ran.
func (s *Stamps) PID(id string) int { return s.pids[id] }

// Starts counts how often a worker has begun, Spoken how often a talking one has got a line out.
func (s *Stamps) Starts(id string) int { return s.starts[id] }

// Spoken counts the lines of a talking worker.
func (s *Stamps) Spoken(id string) int { return s.spoken[id] }

// Crash kills workers at once and returns how long after that each of them runs again, in milliseconds, in the order in which
// they came back.
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
		pid := s.pids[id]
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
