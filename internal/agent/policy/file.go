package policy

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"drover/internal/process"
	"drover/internal/wildcard"
)

// maxFile is the largest policy file, in bytes.
const maxFile = 64 << 10

// stamp detects a change of a file without a read.
type stamp struct {
	there            bool
	modified, change time.Time
	size             int64
	inode            uint64
}

func stampOf(path string) (stamp, error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		if _, link := os.Lstat(path); link == nil {
			return stamp{}, fmt.Errorf("%s is a broken link", path)
		}
		return stamp{}, nil
	}
	if err != nil {
		return stamp{}, err
	}
	return stampFrom(info), nil
}

func stampFrom(info fs.FileInfo) stamp {
	s := stamp{there: true, modified: info.ModTime(), size: info.Size()}
	if sys, ok := info.Sys().(*syscall.Stat_t); ok {
		s.inode, s.change = sys.Ino, time.Unix(sys.Ctim.Unix())
	}
	return s
}

// read reads a policy, and returns the stamp of the content that it read.
func read(path string) (*rules, stamp, error) {
	// O_NONBLOCK: the open must not wait for the other end of a FIFO.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, stamp{}, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, stamp{}, err
	}
	seen := stampFrom(info)
	if err := trusted(path, info); err != nil {
		return nil, seen, err
	}
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, seen, err
	}
	if len(text) > maxFile {
		return nil, seen, fmt.Errorf("%s is larger than %d bytes", path, maxFile)
	}
	if len(bytes.TrimSpace(text)) == 0 {
		// A full disk leaves an empty file, and so does an editor that is about to write it.
		return nil, seen, fmt.Errorf("%s is empty: remove it to allow everything", path)
	}
	r, err := parse(string(text))
	if err != nil {
		return nil, seen, fmt.Errorf("%s %w", path, err)
	}
	return r, seen, nil
}

// trusted rejects a file that anybody besides root and the agent's own account could have written.
func trusted(path string, info fs.FileInfo) error {
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s is not a regular file", path)
	}
	if perm := info.Mode().Perm(); perm&0o022 != 0 {
		return fmt.Errorf("other users may write %s: its mode is %#o, expected 0644", path, perm)
	}
	if sys, ok := info.Sys().(*syscall.Stat_t); ok && sys.Uid != 0 && int(sys.Uid) != os.Geteuid() {
		return fmt.Errorf("%s belongs to uid %d: expected root or uid %d", path, sys.Uid, os.Geteuid())
	}
	return nil
}

// rules are the content of the file. A kind of line that is missing denies nothing.
type rules struct {
	users, paths, variables, namespaces, operations []entry
	// observe is the number of the observe-only line, 0 if there is none.
	observe int
}

// entry is one word of a line.
type entry struct {
	text string
	line int
}

// parse parses the text of a file: a kind and its words on each line; "#" begins a comment. Several lines of one kind
// add up.
func parse(text string) (*rules, error) {
	r := &rules{}
	number := 0
	for line := range strings.Lines(text) {
		number++
		line, _, _ = strings.Cut(line, "#")
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		if err := r.add(number, words[0], words[1:]); err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
	}
	return r, nil
}

func (r *rules) add(line int, kind string, words []string) error {
	if kind == "observe-only" {
		if len(words) > 0 {
			return fmt.Errorf("unexpected %q after observe-only", words[0])
		}
		r.observe = line
		return nil
	}
	list, ok := map[string]*[]entry{
		"users": &r.users, "paths": &r.paths, "variables": &r.variables, "namespaces": &r.namespaces,
		"operations": &r.operations,
	}[kind]
	if !ok {
		return fmt.Errorf("%q is unknown: expected users, paths, variables, namespaces, operations or observe-only", kind)
	}
	if len(words) == 0 {
		return fmt.Errorf("%s: expected at least one value", kind)
	}
	for _, word := range words {
		switch kind {
		case "paths":
			if !filepath.IsAbs(word) {
				return fmt.Errorf("path %q is not absolute", word)
			}
			*list = append(*list, entry{filepath.Clean(word), line})
		case "operations":
			ops, ok := operationsOf(word)
			if !ok {
				return fmt.Errorf("unknown operation %q", word)
			}
			for _, op := range ops {
				*list = append(*list, entry{string(op), line})
			}
		default:
			*list = append(*list, entry{word, line})
		}
	}
	return nil
}

// operationsOf returns the operations that a word stands for; the groups are those in the rights of apps.
func operationsOf(word string) ([]process.Op, bool) {
	if ops := process.OpsIn(process.OpGroup(word)); ops != nil {
		return ops, true
	}
	for _, row := range process.Ops() {
		if word == string(row.Op) || word == row.Right {
			return []process.Op{row.Op}, true
		}
	}
	return nil, false
}

func (r *rules) summary() string {
	var parts []string
	if r.observe != 0 {
		parts = append(parts, "observe only")
	}
	for _, list := range []struct {
		name string
		list []entry
	}{
		{"users", r.users},
		{"paths", r.paths},
		{"variables", r.variables},
		{"namespaces", r.namespaces},
		{"operations", r.operations},
	} {
		if len(list.list) > 0 {
			parts = append(parts, list.name+" "+texts(list.list))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return strings.Join(parts, "; ")
}

// matchesAny reports whether a text matches one of the patterns.
func matchesAny(patterns []entry, text string) bool {
	return slices.ContainsFunc(patterns, func(p entry) bool { return wildcard.Match(p.text, text) })
}
