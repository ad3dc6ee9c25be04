package sqlite

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
)

// Of the database file format (sqlite.org/fileformat2.html): where the header holds what, and how long the parts of a
// write-ahead log are.
const (
	fileHeader  = 100
	logHeader   = 32
	frameHeader = 24
	largestPage = 65536
)

// checkComplete fails when a part of the file that its header counts is missing, as after a copy that broke off: SQLite
// may open such a file, and fail at some later read. Pages may be missing that the write-ahead log beside it still
// holds. What is no database is left for SQLite to tell.
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
	// The page count holds only where the two change counters are the same.
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
	// The log before the length: whoever folds it in just now lengthens the file first and empties the log then.
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

// loggedPages returns the numbers of the pages that a write-ahead log holds; none where there is no log.
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
		// Behind the last frame lie those of the log's earlier rounds, under other salts.
		if string(frame[8:16]) != string(head[16:24]) {
			return pages, nil
		}
		pages[int64(binary.BigEndian.Uint32(frame[:4]))] = true
	}
}

// ignoreEOF passes on errors but the end of a file.
func ignoreEOF(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil
	}
	return err
}
