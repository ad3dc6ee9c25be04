package logs

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/klauspost/compress/gzip"
)

// A rotated file is named STREAM.FROM-TO, with .gz if it is compressed: it holds the bytes FROM to TO of the stream.
// A compressed file is a series of gzip members of memberSize bytes of text each, which every program for gzip reads.
// The header of a member has the length of the member in an extra field, so that a reader can skip it.
const (
	compressed = ".gz"
	memberSize = 256 << 10
	// headerSize is the length of the header of a member with its extra field, and of that field before the length.
	headerSize  = 10 + 2 + extraSize
	extraSize   = 4 + 4
	lengthAt    = 10 + 2 + 4
	trailerSize = 8
)

// segment is one rotated file of a stream.
type segment struct {
	path     string
	from, to int64
	packed   bool
	modified time.Time
}

// segmentName is the name of a rotated file.
func segmentName(stream string, from, to int64, packed bool) string {
	name := fmt.Sprintf("%s.%019d-%019d", stream, from, to) // so names sort as offsets do
	if packed {
		name += compressed
	}
	return name
}

// segmentsOf returns the rotated files of a stream, the oldest first: in the order of their names. An unreadable
// directory has none.
func segmentsOf(dir, stream string) (all []segment) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	for _, e := range entries {
		span, ok := strings.CutPrefix(e.Name(), stream+".")
		if !ok {
			continue
		}
		span, packed := strings.CutSuffix(span, compressed)
		first, last, _ := strings.Cut(span, "-")
		from, err1 := strconv.ParseInt(first, 10, 64)
		to, err2 := strconv.ParseInt(last, 10, 64)
		if err1 != nil || err2 != nil || from < 0 || to <= from {
			continue
		}
		s := segment{path: filepath.Join(dir, e.Name()), from: from, to: to, packed: packed}
		if info, err := e.Info(); err == nil {
			s.modified = info.ModTime()
		}
		all = append(all, s)
	}
	return all
}

// packer makes gzip members. The zero value is ready. It is used by one goroutine.
type packer struct {
	out bytes.Buffer
	zip *gzip.Writer
}

// pack returns a text as one gzip member, which is valid until the next call.
func (p *packer) pack(text []byte) ([]byte, error) {
	if p.zip == nil {
		var err error
		if p.zip, err = gzip.NewWriterLevel(nil, gzip.BestSpeed); err != nil {
			return nil, err
		}
	}
	p.out.Reset()
	p.zip.Reset(&p.out)
	// Two letters, the length of the value, and the value (RFC 1952, 2.3.1.1).
	p.zip.Extra = []byte{'D', 'R', 4, 0, 0, 0, 0, 0}
	if _, err := p.zip.Write(text); err != nil {
		return nil, err
	}
	if err := p.zip.Close(); err != nil {
		return nil, err
	}
	member := p.out.Bytes()
	binary.LittleEndian.PutUint32(member[lengthAt:], uint32(len(member))) //nolint:gosec // some hundred KiB
	return member, nil
}

// errDamaged says that a rotated file cannot be read.
var errDamaged = errors.New("damaged")

// read reads bytes of the stream from at, at most as many as fit into p. It returns 0 bytes at the end.
func (s *segment) read(p []byte, at int64) (int, error) {
	file, err := os.Open(s.path)
	if err != nil {
		return 0, err
	}
	defer file.Close() //nolint:errcheck // nothing was written
	if !s.packed {
		n, err := file.ReadAt(p[:min(int64(len(p)), s.to-at)], at-s.from)
		if n > 0 || errors.Is(err, io.EOF) {
			err = nil
		}
		return n, err
	}
	text, begin, err := s.member(file, at)
	if err != nil {
		return 0, fmt.Errorf("cannot read %s: %w", filepath.Base(s.path), err)
	}
	return copy(p, text[at-begin:]), nil
}

// member returns the text of the member that has the byte at, and where the text begins.
func (s *segment) member(file *os.File, at int64) (text []byte, begin int64, err error) {
	begin = s.from
	for place := int64(0); ; {
		var header [headerSize]byte
		if _, err := file.ReadAt(header[:], place); err != nil {
			return nil, 0, errDamaged
		}
		length := int64(binary.LittleEndian.Uint32(header[lengthAt:]))
		if header[10] != extraSize || length < headerSize+trailerSize {
			return nil, 0, errDamaged
		}
		var size [4]byte
		if _, err := file.ReadAt(size[:], place+length-int64(len(size))); err != nil {
			return nil, 0, errDamaged
		}
		end := begin + int64(binary.LittleEndian.Uint32(size[:]))
		if end > s.to || end <= begin || end-begin > memberSize {
			return nil, 0, errDamaged
		}
		if at < end {
			text, err = unpack(io.NewSectionReader(file, place, length), int(end-begin))
			return text, begin, err
		}
		place, begin = place+length, end
	}
}

func unpack(member io.Reader, size int) ([]byte, error) {
	r, err := gzip.NewReader(member)
	if err != nil {
		return nil, errDamaged
	}
	r.Multistream(false)
	text := make([]byte, size)
	if _, err := io.ReadFull(r, text); err != nil {
		return nil, errDamaged
	}
	return text, nil
}
