// Package drift compares configuration files with the checksums in a spec. It owns how to compare cheaply, without
// being blocked by a file that is not regular. It keeps nothing itself and does not decide when to compare.
package drift

import (
	"context"
	"crypto/md5" //nolint:gosec // it is what the callers give, and tells change, not forgery
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"drover/internal/agent/trail"
	"drover/internal/process"
)

const (
	// maxSize is the largest file that is compared, in bytes; it takes about half a second.
	maxSize = 256 << 20
	// maxTime is how long one file may take to be read.
	maxTime = 3 * time.Second
	// settled is how long a file must not have been changed for its times to tell of the next change: they are coarse,
	// and two changes may bear the same one.
	settled = 2 * time.Second
)

// State is what one check leaves for the next. Its zero value knows nothing. It may be kept as JSON.
type State struct {
	Files []File `json:"files,omitempty"`
}

// File is what is known of one file.
type File struct {
	Path string `json:"path"`
	// Want is the checksum that it was compared with, Have what it has; Problem says why there is none.
	Want    string `json:"want"`
	Have    string `json:"have,omitempty"`
	Problem string `json:"problem,omitempty"`
	// Mark stands for the content that Have is of: as long as it is the same, the file need not be read. Empty where it
	// must.
	Mark string `json:"mark,omitempty"`
	// Since is when it began to differ, in Unix milliseconds; 0 where it does not.
	Since int64 `json:"since,omitempty"`
}

// Check compares the files with what the spec says of them, and returns those that differ in its order. A file of which
// nothing has changed since prev costs one system call; one that has is read, at most 256 MiB and three seconds long.
// It blocks as long as that takes, and no shorter than the file system lets it. Visit opens the files. An entry without
// checksum is not looked at, and none any more once ctx has ended.
func Check(ctx context.Context, prev State, files []process.ConfigFile, visit trail.Visit) (State, []process.Drift) {
	var next State
	var drifts []process.Drift
	for _, f := range files {
		if ctx.Err() != nil {
			break
		}
		if f.MD5 == "" {
			continue
		}
		now := look(f, previousFile(prev, f), visit)
		next.Files = append(next.Files, now)
		if now.Since != 0 {
			drifts = append(drifts, process.Drift{
				Path: now.Path, Want: now.Want, Have: now.Have, Problem: now.Problem,
				Since: now.Since,
			})
		}
	}
	return next, drifts
}

// previousFile returns what an earlier check has found out about the same path, best with the same checksum wanted.
func previousFile(prev State, f process.ConfigFile) File {
	var best File
	for _, p := range prev.Files {
		if p.Path == f.Path && (best.Path == "" || p.Want == f.MD5) {
			best = p
		}
	}
	return best
}

// look compares one file.
func look(f process.ConfigFile, before File, visit trail.Visit) File {
	now := File{Path: f.Path, Want: f.MD5}
	var have, mark string
	err := errRelative
	if filepath.IsAbs(f.Path) {
		err = withoutPath(visit(f.Path, func(way *trail.Trail) (err error) {
			have, mark, err = sum(way, before)
			return err
		}))
	}
	if now.Have, now.Mark = have, mark; err != nil {
		now.Problem = err.Error()
	}
	switch {
	case err == nil && strings.EqualFold(have, f.MD5):
	case before.Want == f.MD5 && before.Since != 0:
		now.Since = before.Since
	default:
		now.Since = time.Now().UnixMilli()
	}
	return now
}

var (
	errNoFile   = errors.New("is not a regular file")
	errRelative = errors.New("is not absolute")
)

// sum returns the checksum of a file, from before where nothing has changed, and the mark of what it is of.
func sum(way *trail.Trail, before File) (have, mark string, err error) {
	if !way.IsRegular() {
		return "", "", errNoFile
	}
	st := way.Stat()
	if mark = markOf(&st); before.Mark != "" && mark == before.Mark {
		return before.Have, mark, nil
	}
	if st.Size > maxSize {
		return "", "", fmt.Errorf("is too large: %d bytes, at most %d are compared", st.Size, int64(maxSize))
	}
	file, err := way.Open()
	if err != nil {
		return "", "", err
	}
	defer file.Close()
	if mark, err = stableMark(file); err != nil {
		return "", "", err
	}
	have, err = digest(file)
	if err != nil {
		return "", "", err
	}
	if after, err := stableMark(file); err != nil || after != mark {
		mark = ""
	}
	return have, mark, nil
}

// digest reads a file to its end.
func digest(file *os.File) (string, error) {
	hash, buffer := md5.New(), make([]byte, 64<<10) //nolint:gosec // see above
	began := time.Now()
	for total := 0; ; {
		n, err := file.Read(buffer)
		hash.Write(buffer[:n])
		switch total += n; {
		case errors.Is(err, io.EOF):
			return hex.EncodeToString(hash.Sum(nil)), nil
		case err != nil:
			return "", withoutPath(err)
		case total > maxSize:
			return "", fmt.Errorf("is too large: it has grown beyond %d bytes", int64(maxSize))
		case time.Since(began) > maxTime:
			return "", fmt.Errorf("could not be read within %v", maxTime)
		}
	}
}

// stableMark returns the mark of an open file, empty if it was changed so lately that the next change might bear the
// same times.
func stableMark(file *os.File) (string, error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(file.Fd()), &st); err != nil {
		return "", err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return "", errNoFile
	}
	if age := time.Since(time.Unix(st.Ctim.Unix())); age.Abs() < settled {
		return "", nil
	}
	return markOf(&st), nil
}

// markOf is the same for two looks at a file only if nobody has changed it in between. The time of the inode is in it
// because that of the content can be set back.
func markOf(st *unix.Stat_t) string {
	return fmt.Sprintf("%x.%x.%x.%x.%x", st.Dev, st.Ino, st.Size, st.Mtim.Nano(), st.Ctim.Nano())
}

// withoutPath takes the path off an error: whoever shows it shows the path already.
func withoutPath(err error) error {
	if path, ok := errors.AsType[*os.PathError](err); ok {
		return path.Err
	}
	return err
}
