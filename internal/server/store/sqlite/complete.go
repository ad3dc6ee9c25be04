package sqlite

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
)

// Offsets in the header and sizes of the parts of a write-ahead log, from the database file format
// (sqlite.org/fileformat2.html).
const (
	fileHeader  = 100
	logHeader   = 32
	frameHeader = 24
	largestPage = 65536
)

// checkComplete fails if the file is shorter than its header says, as after an interrupted copy. SQLite may open such a
// file and fail at a later read. Pages in the write-ahead log may be missing from the file. If the file is not a
// database, checkComplete leaves the error to SQLite.
func checkComplete(path string) (err error) {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	var head [fileHeader]byte
	_, err = io.ReadFull(f, head[:])
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil
	}
	if err != nil {
		return err
	}
	// The page count is valid only if the two change counters are equal.
	if string(head[24:28]) != string(head[92:96]) {
		return nil
	}
	size := int64(binary.BigEndian.Uint16(head[16:18]))
	if size == 1 {
		size = largestPage
	}
	if size < 512 {
		return nil
	}
	pages := int64(binary.BigEndian.Uint32(head[28:32]))
	// Read the log before the length: a concurrent checkpoint first extends the file and then empties the log.
	logged, err := loggedPages(path+"-wal", size)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err != nil {
		return err
	}
	for page := info.Size()/size + 1; page <= pages; page++ {
		if !logged[page] {
			return fmt.Errorf(
				"the file is cut off: it has %d bytes and should have %d; restore a copy, or move the file away to start without it",
				info.Size(), pages*size)
		}
	}
	return nil
}

// loggedPages returns the page numbers in a write-ahead log; none if there is no log.
func loggedPages(path string, size int64) (_ map[int64]bool, err error) {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	var head [logHeader]byte
	if _, err := io.ReadFull(f, head[:]); err != nil {
		return nil, ignoreEOF(err)
	}
	pages := map[int64]bool{}
	var frame [frameHeader]byte
	for at := int64(logHeader); ; at += frameHeader + size {
		if _, err := f.ReadAt(frame[:], at); err != nil {
			return pages, ignoreEOF(err)
		}
		// Frames of earlier rounds of the log, with other salts, follow the last frame.
		if string(frame[8:16]) != string(head[16:24]) {
			return pages, nil
		}
		pages[int64(binary.BigEndian.Uint32(frame[:4]))] = true
	}
}

// ignoreEOF drops the error of the end of a file.
func ignoreEOF(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil
	}
	return err
}
