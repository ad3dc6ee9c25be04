package logs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	// marksFile has a line for each mark of a process, in the order of time.
	marksFile = "marks"
	// maxMarks is the size in bytes from which drover drops marks: those of text that is gone, and every second time.
	maxMarks = 128 << 10
	// maxRuns is how many runs remain.
	maxRuns = 1000
)

// mark is what drover notes beside the text. Offsets count all bytes that a stream ever had.
type mark struct {
	kind byte
	at   int64 // Unix milliseconds
	// ends are the lengths of the streams at that moment.
	ends [streams]int64
	// number and run are of a run that begins here: markRun.
	number int
	run    string
	// stream, from and to are the bytes that were dropped before anybody kept them: markLost.
	stream   int
	from, to int64
}

const (
	markTime = 't'
	markRun  = 'r'
	markUndo = 'u' // the last run did not begin
	markLost = 'l'
)

func (m *mark) line() []byte {
	switch m.kind {
	case markTime:
		return fmt.Appendf(nil, "t %d %d %d\n", m.at, m.ends[0], m.ends[1])
	case markRun:
		return fmt.Appendf(nil, "r %d %d %d %d %s\n", m.at, m.ends[0], m.ends[1], m.number, m.run)
	case markUndo:
		return fmt.Appendf(nil, "u %s\n", m.run)
	default:
		return fmt.Appendf(nil, "l %d %d %d %d\n", m.at, m.stream, m.from, m.to)
	}
}

// parseMarks leaves out lines that it cannot read: the host may have lost its power while a line was written.
func parseMarks(text []byte) (all []mark) {
	for line := range strings.Lines(string(text)) {
		m, ok := parseMark(strings.Fields(line))
		switch {
		case !ok:
		case m.kind == markUndo:
			if n := lastRun(all); n >= 0 && all[n].run == m.run {
				all = slices.Delete(all, n, n+1)
			}
		default:
			all = append(all, m)
		}
	}
	return all
}

func parseMark(words []string) (m mark, ok bool) {
	if len(words) < 2 {
		return m, false
	}
	m.kind = words[0][0]
	want := map[byte]int{markTime: 3, markRun: 4, markUndo: 0, markLost: 4}
	count, known := want[m.kind]
	text := m.kind == markRun || m.kind == markUndo
	length := 1 + count
	if text {
		length++
		m.run = words[len(words)-1]
	}
	if !known || len(words) != length {
		return m, false
	}
	var n [4]int64
	for i := range count {
		value, err := strconv.ParseInt(words[1+i], 10, 64)
		if err != nil || value < 0 {
			return m, false
		}
		n[i] = value
	}
	m.at = n[0]
	if m.kind == markLost {
		m.stream, m.from, m.to = int(n[1]), n[2], n[3]
		return m, m.stream < streams && m.from < m.to
	}
	m.ends, m.number = [streams]int64{n[1], n[2]}, int(n[3])
	return m, true
}

// lastRun returns the index of the last run; -1 if there is none.
func lastRun(all []mark) int {
	for i, m := range slices.Backward(all) {
		if m.kind == markRun {
			return i
		}
	}
	return -1
}

// readMarks returns the marks of a directory; a missing file has none.
func readMarks(dir string) ([]mark, error) {
	text, err := os.ReadFile(filepath.Join(dir, marksFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("cannot read the marks of a log: %w", err)
	}
	return parseMarks(text), nil
}

// appendMark adds a mark, and returns its size in bytes.
func appendMark(dir string, m *mark) (int, error) {
	// Not os.OpenFile: the watching thread adds a thousand marks a second.
	fd, err := unix.Open(dir+"/"+marksFile, unix.O_WRONLY|unix.O_CREAT|unix.O_APPEND|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return 0, fmt.Errorf("cannot add a mark to a log: %w", err)
	}
	defer unix.Close(fd) //nolint:errcheck // the write was checked
	n, err := unix.Write(fd, m.line())
	if err != nil {
		return 0, fmt.Errorf("cannot add a mark to a log: %w", err)
	}
	return n, nil
}

// endLine ends the last line of a file of marks, which an earlier agent may have written in part.
func endLine(path string) error {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_APPEND, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("cannot open the marks of a log: %w", err)
	}
	defer file.Close() //nolint:errcheck // the write is checked
	var last [1]byte
	if end, err := file.Seek(-1, io.SeekEnd); err != nil {
		return nil //nolint:nilerr // an empty file
	} else if _, err := file.ReadAt(last[:], end); err == nil && last[0] != '\n' {
		if _, err := file.WriteString("\n"); err != nil {
			return fmt.Errorf("cannot end the marks of a log: %w", err)
		}
	}
	return nil
}

// thin replaces the marks of a directory by those that still count; kept are the first bytes that are still there. If
// they are still too many, every second time goes: the older a time, the coarser it is.
func thin(dir string, kept [streams]int64) error {
	all, err := readMarks(dir)
	if err != nil {
		return err
	}
	all = useful(all, kept)
	for size := encodedSize(all); size > maxMarks/2; {
		all = everySecond(all)
		now := encodedSize(all)
		if now == size {
			break
		}
		size = now
	}
	var text bytes.Buffer
	for i := range all {
		text.Write(all[i].line())
	}
	path := filepath.Join(dir, marksFile)
	if err := os.WriteFile(path+temporary, text.Bytes(), 0o600); err != nil {
		return fmt.Errorf("cannot shorten the marks of a log: %w", err)
	}
	if err := os.Rename(path+temporary, path); err != nil {
		return fmt.Errorf("cannot shorten the marks of a log: %w", err)
	}
	return nil
}

// useful returns the marks that are about text that is there, or about one of the last runs. It joins losses that
// follow each other.
func useful(all []mark, kept [streams]int64) (left []mark) {
	runs := 0
	for i := range all {
		if all[i].kind == markRun {
			runs++
		}
	}
	last := map[int]int{} // by stream, the index in left of its last loss
	for _, m := range all {
		switch m.kind {
		case markTime:
			if m.ends[0] < kept[0] && m.ends[1] < kept[1] {
				continue
			}
		case markRun:
			if runs--; runs >= maxRuns {
				continue
			}
		case markLost:
			if m.to < kept[m.stream] {
				continue
			}
			if n, ok := last[m.stream]; ok && left[n].to == m.from {
				left[n].to = m.to
				continue
			}
			last[m.stream] = len(left)
		}
		left = append(left, m)
	}
	return left
}

func everySecond(all []mark) (left []mark) {
	drop := false
	for _, m := range all {
		if m.kind == markTime {
			if drop = !drop; drop {
				continue
			}
		}
		left = append(left, m)
	}
	return left
}

func encodedSize(all []mark) (n int) {
	for i := range all {
		n += len(all[i].line())
	}
	return n
}

// timeOf returns when drover saw that a stream was longer than at; now if it has not seen that yet.
func timeOf(all []mark, stream int, at, now int64) int64 {
	i, _ := slices.BinarySearchFunc(all, at, func(m mark, at int64) int {
		if m.ends[stream] > at {
			return 1
		}
		return -1
	})
	if i == len(all) {
		return now
	}
	return all[i].at
}

// moments returns the marks that have the lengths of the streams.
func moments(all []mark) (list []mark) {
	for _, m := range all {
		if m.kind != markLost {
			list = append(list, m)
		}
	}
	return list
}

// runsIn returns the runs, the oldest first.
func runsIn(all []mark) (list []mark) {
	for _, m := range all {
		if m.kind == markRun {
			list = append(list, m)
		}
	}
	return list
}
