package logs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"drover/internal/agent/trail"
	"drover/internal/wire"
)

const (
	// maxFiles is how many log files are read at the same time, patience how long a file system may take.
	maxFiles = 8
	patience = 5 * time.Second
)

// file is the log file that a process writes itself, as it was when it was opened. The zero file stands for one that is
// not there.
type file struct {
	*os.File
	// path has no links.
	path  string
	inode uint64
	size  int64
}

// spot is where a reader is in a log file; an inode of 0 is that of whatever file comes.
type spot struct {
	inode uint64
	place
	// since is when text without the end of its line was first seen there, in Unix milliseconds; 0 if there is none.
	since int64
}

// cursor is the spot as readers keep it.
func (s *spot) cursor() string {
	return fmt.Sprintf("%d:%s:%d", s.inode, s.place, s.since)
}

func parseSpot(cursor string) (s spot, err error) {
	words := strings.Split(cursor, ":")
	if len(words) < 2 || len(words) > 3 {
		return s, errCursor
	}
	if s.inode, err = strconv.ParseUint(words[0], 10, 64); err != nil {
		return s, errCursor
	}
	if len(words) == 3 {
		if s.since, err = offset(words[2]); err != nil {
			return s, err
		}
	}
	s.place, err = parsePlace(words[1])
	return s, err
}

// begin is the begin of a file, which has no end yet.
func begin(inode uint64) spot { return spot{inode: inode, place: place{until: open}} }

// read implements source.
func (f *file) read(p []byte, at int64) (int, error) {
	n, err := f.ReadAt(p, at)
	if n > 0 {
		err = nil
	}
	return n, err
}

// first implements source.
func (f *file) first(at int64) int64 { return at }

// AnswerFile returns a piece of the log file of a process: of path, or of the newest file in it if it is a directory.
// It blocks for some seconds at most, even if the file system hangs.
func (store *Store) AnswerFile(ctx context.Context, q wire.LogQuestion, path string, visit trail.Visit) wire.LogAnswer {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	places := store.files
	if q.Grep != "" {
		places = store.searching
	}
	select {
	case places <- struct{}{}:
	case <-ctx.Done():
		return failed(fmt.Errorf("cannot read %s: too many log files are being read", path))
	}
	answered := make(chan wire.LogAnswer, 1)
	go func() {
		defer func() { <-places }()
		over, cancel := context.WithTimeout(ctx, store.searchFor)
		defer cancel()
		a, err := readFile(over, &q, path, visit)
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

// readFile searches until over ends.
func readFile(over context.Context, q *wire.LogQuestion, path string, visit trail.Visit) (a wire.LogAnswer, err error) {
	match, err := expression(q)
	switch {
	case err != nil:
		return a, err
	case q.Run != 0 || q.Since != 0:
		return a, errors.New("drover knows neither runs nor times of its lines: leave out run and since")
	}
	v := &view{q: q, match: match, over: over}
	newest, err := trail.Newest(visit, path)
	present := &file{}
	if err == nil {
		present, err = openFile(visit, newest)
	}
	defer present.Close() //nolint:errcheck // nothing was written
	missing := errors.Is(err, fs.ErrNotExist)
	if err != nil && !missing {
		return a, err
	}
	from := begin(present.inode)
	switch {
	case q.Cursor != "":
		return v.goOn(present, path, visit)
	case missing:
		a = failed(fmt.Errorf("the log_file %s does not exist", path))
		if q.Follow {
			a.Cursor = from.cursor()
		}
		return a, nil
	}
	if !q.Follow {
		from.until = present.size
	}
	switch {
	case q.New:
		from.at = present.size
	case q.Tail > 0:
		f := feed{source: present, until: present.size, most: min(maxLine, q.Limit)}
		from.at = f.until
		last, err := v.lastLines(&f)
		if err != nil {
			return a, err
		}
		if len(last) > 0 {
			from.at = last[0]
		}
	}
	return v.filePiece(present, from, !q.Follow)
}

func openFile(visit trail.Visit, path string) (f *file, err error) {
	f = &file{}
	err = visit(path, func(way *trail.Trail) error {
		if !way.IsRegular() {
			return fmt.Errorf("%s is not a regular file", path)
		}
		opened, err := way.Open()
		if err != nil {
			return err
		}
		st := way.Stat()
		f.File, f.path, f.inode = opened, way.Path, st.Ino
		f.size, err = opened.Seek(0, io.SeekEnd)
		return err
	})
	return f, err
}

// goOn is a piece from a cursor on. present is the file that is there now, if any. If another one was there, the rest
// of that one comes first.
func (v *view) goOn(present *file, path string, visit trail.Visit) (a wire.LogAnswer, err error) {
	from, err := parseSpot(v.q.Cursor)
	if err != nil {
		return a, err
	}
	follow := from.until == open
	if !follow && from.at >= from.until {
		return a, nil
	}
	gone := "replaced"
	switch {
	case from.inode == 0 && present.File == nil:
		return a, nil
	case from.inode == 0:
		return v.filePiece(present, begin(present.inode), !follow)
	case from.inode == present.inode && from.at <= present.size:
		return v.filePiece(present, from, !follow)
	case from.inode == present.inode:
		gone = "truncated"
	default:
		if present.File != nil {
			path = present.path
		}
		old, err := openFile(visit, trail.Renamed(visit, filepath.Dir(path), from.inode))
		defer old.Close() //nolint:errcheck // nothing was written
		if err == nil && old.inode == from.inode && from.at <= old.size {
			ended := present.size > 0 // its writer has gone over to the new one
			a, err = v.filePiece(old, from, !follow || ended)
			switch {
			case !follow || !ended || a.More || err != nil:
				return a, err
			case len(a.Blocks) == 0:
				return v.filePiece(present, begin(present.inode), false)
			}
			next := begin(present.inode)
			a.Cursor, a.More = next.cursor(), true
			return a, nil
		}
		if follow && present.File == nil {
			return a, nil // it may come
		}
	}
	a = failed(fmt.Errorf("the log_file %s was %s: lines may be missing", path, gone))
	if follow {
		from = begin(present.inode)
		a.Cursor, a.More = from.cursor(), true
	}
	return a, nil
}

// filePiece is piece for a log file. A question that does not follow the file ends at the end that the file had first,
// and with the file.
func (v *view) filePiece(from *file, at spot, whole bool) (a wire.LogAnswer, err error) {
	f := &feed{source: from, at: at.at, until: from.size, whole: whole, most: min(maxLine, v.q.Limit)}
	if at.until != open {
		f.until = min(f.until, at.until)
	}
	end := at
	b := wire.LogBlock{Stream: wire.StreamFile}
	lines := 0
	for {
		l, ok := f.next()
		if !ok && f.at == at.at && at.since > 0 && now()-at.since >= waitFor.Milliseconds() {
			f.whole = true
			l, ok = f.next()
		}
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
		if end.at = l.to; f.scanned >= maxScan || v.late() {
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
	switch {
	case end.at == f.until:
		end.since = 0
	case end.at != at.at || at.since == 0:
		end.since = now()
	}
	a.Cursor = end.cursor()
	return a, nil
}
