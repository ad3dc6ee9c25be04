package logs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"drover/internal/agent/trail"
	"drover/internal/wire"
)

const (
	// maxFiles is how many log files are read at the same time, patience how long a file system may take.
	maxFiles = 8
	patience = 5 * time.Second
)

// file is the log file that a process writes itself.
type file struct{ *os.File }

// read implements source.
func (f file) read(p []byte, at int64) (int, error) {
	n, err := f.ReadAt(p, at)
	if n > 0 {
		err = nil
	}
	return n, err
}

// first implements source.
func (f file) first(at int64) int64 { return at }

// AnswerFile returns a piece of the log file of a process: of path, or of the newest file in it if it is a directory.
// It blocks for some seconds at most, even if the file system hangs.
func (k *Keeper) AnswerFile(ctx context.Context, q wire.LogQuestion, path string, visit trail.Visit) wire.LogAnswer {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	select {
	case k.files <- struct{}{}:
	case <-ctx.Done():
		return failed(fmt.Errorf("cannot read %s: too many log files are being read", path))
	}
	answered := make(chan wire.LogAnswer, 1)
	go func() {
		defer func() { <-k.files }()
		a, err := readFile(&q, path, visit)
		if err != nil {
			a = failed(fmt.Errorf("cannot read log_file: %w", err))
		}
		answered <- a
	}()
	select {
	case a := <-answered:
		return a
	case <-ctx.Done():
		return failed(fmt.Errorf("cannot read %s: the file system does not answer", path))
	}
}

func readFile(q *wire.LogQuestion, path string, visit trail.Visit) (a wire.LogAnswer, err error) {
	match, err := expression(q)
	switch {
	case err != nil:
		return a, err
	case q.Run != 0 || q.Since != 0:
		return a, errors.New("drover knows neither runs nor times of its lines: leave out run and since")
	}
	newest, err := trail.Newest(visit, path)
	if errors.Is(err, fs.ErrNotExist) {
		return a, nil // the process has not written it yet
	}
	if err != nil {
		return a, err
	}
	err = visit(newest, func(way *trail.Trail) error {
		if !way.IsRegular() {
			return fmt.Errorf("%s is not a regular file", newest)
		}
		opened, err := way.Open()
		if err != nil {
			return err
		}
		defer opened.Close() //nolint:errcheck // nothing was written
		v := &view{q: q, match: match}
		a, err = v.filePiece(file{opened})
		return err
	})
	return a, err
}

// filePiece is piece for a log file. The cursor is the file and the place in it: another file is read from its begin. A
// question that does not follow the file ends at the end that the file had first, and with the file.
func (v *view) filePiece(from file) (a wire.LogAnswer, err error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(from.Fd()), &st); err != nil {
		return a, err
	}
	f, end, err := v.feedOfFile(from, &st)
	if f == nil || err != nil {
		return a, err
	}
	b := wire.LogBlock{Stream: wire.StreamFile}
	lines := 0
	end.at = f.at
	for {
		l, ok := f.next()
		if !ok {
			break
		}
		if v.matches(l.text) {
			if lines > 0 && len(b.Text)+1+len(l.text) > v.q.Limit {
				a.More = true
				break
			}
			if lines++; lines > 1 {
				b.Text = append(b.Text, '\n')
			}
			b.Text = append(b.Text, l.text...)
		}
		if end.at = l.to; f.scanned >= maxScan {
			a.More = true
			break
		}
	}
	if f.err != nil && !errors.Is(f.err, io.EOF) {
		return a, f.err
	}
	if lines > 0 {
		a.Blocks = []wire.LogBlock{b}
	}
	a.Cursor = fmt.Sprintf("%d:%s", st.Ino, end)
	return a, nil
}

// feedOfFile is the text of a log file from the place where the question begins, and that place. The feed is nil if
// that text is gone.
func (v *view) feedOfFile(from file, st *unix.Stat_t) (f *feed, end place, err error) {
	f = &feed{source: from, until: st.Size, whole: !v.q.Follow, most: min(maxLine, v.q.Limit)}
	end.until = open
	if !v.q.Follow {
		end.until = st.Size
	}
	switch inode, rest, ok := strings.Cut(v.q.Cursor, ":"); {
	case v.q.Cursor == "" && v.q.Tail > 0:
		f.at = f.until
		if last := (&feed{source: from, until: st.Size, most: f.most}).lastLines(v.q.Tail, v.matches); len(last) > 0 {
			f.at = last[0]
		}
	case v.q.Cursor == "":
	case !ok:
		return nil, end, errCursor
	default:
		if end, err = parsePlace(rest); err != nil {
			return nil, end, err
		}
		f.at = end.at
		if inode != strconv.FormatUint(st.Ino, 10) || f.at > st.Size {
			if end.until != open {
				return nil, end, nil
			}
			f.at = 0
		}
	}
	if end.until != open {
		f.until = min(f.until, end.until)
	}
	return f, end, nil
}
