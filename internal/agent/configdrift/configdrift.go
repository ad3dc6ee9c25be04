// Package configdrift compares configuration files with the checksums in a spec. It owns how to compare cheaply,
// without being blocked by a file that is not regular. It keeps nothing itself and does not decide when to compare.
package configdrift

import (
	"cmp"
	"context"
	"crypto/md5" //nolint:gosec // callers give MD5 sums; they detect changes, not forgery
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"drover/internal/agent/record"
	"drover/internal/agent/trail"
	"drover/internal/process"
	"drover/internal/spec"
)

const (
	// maxSize is the largest file to compare, in bytes; it takes about half a second.
	maxSize = 256 << 20
	// maxTime is the longest time to read one file.
	maxTime = 3 * time.Second
	// settled is how old the last change of a file must be before its mark counts. File times are coarse, so two quick
	// changes may have the same time.
	settled = 2 * time.Second
)

// State is the result of one check, for the next check. The zero value is an empty state. It can be stored as JSON.
type State struct {
	Files []record.ConfigFile `json:"files,omitempty"`
}

// Check compares the files with the checksums in the spec, and returns the files that differ, in the order of the
// spec. A file that has not changed since prev costs one system call. Check reads a changed file, at most 256 MiB and
// for at most three seconds, and may block longer if the file system hangs. visit opens the files. Check skips an
// entry without a checksum, and all other entries once ctx has ended.
func Check(ctx context.Context, prev State, files []spec.ConfigFile, visit trail.Visit) (State, []process.Drift) {
	var next State
	var drifts []process.Drift
	for _, f := range files {
		if ctx.Err() != nil {
			break
		}
		if checksum(f) == "" {
			continue
		}
		now := compareFile(f, previousFile(prev, f), visit)
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

// previousFile returns the previous state of the same path, preferably with the same wanted checksum.
func previousFile(prev State, f spec.ConfigFile) record.ConfigFile {
	var best record.ConfigFile
	for _, p := range prev.Files {
		if p.Path == f.Path && (best.Path == "" || p.Want == checksum(f)) {
			best = p
		}
	}
	return best
}

// checksum is the expected checksum of a file; empty if the file is not compared.
func checksum(f spec.ConfigFile) string { return cmp.Or(f.SHA256, f.MD5) }

// digester makes the kind of checksum that a file is compared by.
func digester(f spec.ConfigFile) hash.Hash {
	if f.SHA256 != "" {
		return sha256.New()
	}
	return md5.New() //nolint:gosec // see the import
}

// compareFile compares one file.
func compareFile(f spec.ConfigFile, before record.ConfigFile, visit trail.Visit) record.ConfigFile {
	now := record.ConfigFile{Path: f.Path, Want: checksum(f)}
	var have, mark string
	err := errRelative
	if filepath.IsAbs(f.Path) {
		err = withoutPath(visit(f.Path, func(way *trail.Trail) (err error) {
			have, mark, err = sum(way, before, digester(f))
			return err
		}))
	}
	if now.Have, now.Mark = have, mark; err != nil {
		now.Problem = err.Error()
	}
	switch {
	case err == nil && strings.EqualFold(have, checksum(f)):
	case before.Want == checksum(f) && before.Since != 0:
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

// sum returns the checksum of a file and the mark of its content. If the mark is unchanged, it takes the checksum from
// before.
func sum(way *trail.Trail, before record.ConfigFile, hash hash.Hash) (have, mark string, err error) {
	if !way.IsRegular() {
		return "", "", errNoFile
	}
	st := way.Stat()
	if mark = markOf(&st); before.Mark != "" && mark == before.Mark && len(before.Have) == 2*hash.Size() {
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
	have, err = digest(file, hash)
	if err != nil {
		return "", "", err
	}
	if after, err := stableMark(file); err != nil || after != mark {
		mark = ""
	}
	return have, mark, nil
}

// digest reads a file to its end.
func digest(file *os.File, hash hash.Hash) (string, error) {
	buffer := make([]byte, 64<<10)
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

// stableMark returns the mark of an open file; empty if the last change is so recent that the next change might have
// the same time.
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

// markOf is the same for two looks only if nobody changed the file in between. It includes the time of the inode,
// because programs can set back the time of the content.
func markOf(st *unix.Stat_t) string {
	return fmt.Sprintf("%x.%x.%x.%x.%x", st.Dev, st.Ino, st.Size, st.Mtim.Nano(), st.Ctim.Nano())
}

// withoutPath removes the path from an error, because the path is shown anyway.
func withoutPath(err error) error {
	if path, ok := errors.AsType[*os.PathError](err); ok {
		return path.Err
	}
	return err
}
