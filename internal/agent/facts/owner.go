package facts

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"drover/internal/agent/launch"
	"drover/internal/selector"
)

// Bounds of the owner's facts.
const (
	mostFiles = 32
	mostFacts = 64
	maxSize   = 64 << 10 // of a file, or of the output of an executable, in bytes
	runTime   = 10 * time.Second
)

// result is what an executable gave when it last ran.
type result struct {
	facts map[string]string
	err   error
}

// owner returns the valid facts of the files in the directory, and the fault of each file and each fact that it leaves
// out. If two files have the same fact, the later file counts.
func (c *Collector) owner(ctx context.Context, ran map[string]result, run bool) (
	facts map[string]string, faults []error,
) {
	entries, err := os.ReadDir(c.cfg.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil {
		err = trusted(c.cfg.Dir)
	}
	if err != nil {
		return nil, []error{err}
	}
	if len(entries) > mostFiles {
		faults = append(faults, fmt.Errorf("%s has %d files: expected at most %d", c.cfg.Dir, len(entries), mostFiles))
		entries = entries[:mostFiles]
	}
	present := map[string]bool{}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") {
			continue
		}
		path := filepath.Join(c.cfg.Dir, e.Name())
		present[path] = true
		own, err := c.fromFile(ctx, path, ran, run)
		if err != nil {
			faults = append(faults, err)
		}
		if facts == nil && len(own) > 0 {
			facts = map[string]string{}
		}
		maps.Copy(facts, own)
	}
	for path := range ran {
		if !present[path] {
			delete(ran, path)
		}
	}
	if len(facts) > mostFacts {
		names := sorted(facts)
		for _, name := range names[mostFacts:] {
			delete(facts, name)
		}
		faults = append(faults, fmt.Errorf("%s has %d facts: expected at most %d", c.cfg.Dir, len(names), mostFacts))
	}
	return facts, faults
}

// fromFile returns the facts of one file: a JSON file, or an executable that prints JSON.
func (c *Collector) fromFile(ctx context.Context, path string, ran map[string]result, run bool,
) (map[string]string, error) {
	if err := trusted(path); err != nil {
		return nil, err
	}
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is not a regular file", path)
	case info.Mode().Perm()&0o111 == 0:
		text, err := readFile(path)
		if err != nil {
			return nil, err
		}
		return parse(path, text)
	}
	last, known := ran[path]
	if run || !known {
		last.facts, last.err = c.execute(ctx, path)
		ran[path] = last
	}
	return last.facts, last.err
}

// trusted rejects a file that somebody else than root and the agent's account could have written.
func trusted(path string) error {
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	if info.Mode()&fs.ModeSymlink != 0 {
		return fmt.Errorf("%s is a link: expected the file itself", path)
	}
	if perm := info.Mode().Perm(); perm&0o022 != 0 {
		return fmt.Errorf("other users may write %s: its mode is %#o", path, perm)
	}
	if sys, ok := info.Sys().(*syscall.Stat_t); ok && sys.Uid != 0 && int(sys.Uid) != os.Geteuid() {
		return fmt.Errorf("%s belongs to uid %d: expected root or uid %d", path, sys.Uid, os.Geteuid())
	}
	return nil
}

// readFile reads a small file.
func readFile(path string) ([]byte, error) {
	// O_NONBLOCK: the open must not wait for the other end of a FIFO.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // it was only read
	text, err := io.ReadAll(io.LimitReader(f, maxSize+1))
	if err == nil && len(text) > maxSize {
		err = tooLarge(path)
	}
	return text, err
}

func tooLarge(path string) error { return fmt.Errorf("%s gives more than %d bytes", path, maxSize) }

// execute runs an executable and returns the facts that it prints.
func (c *Collector) execute(ctx context.Context, path string) (map[string]string, error) {
	out, err := launch.Capture(ctx, path, c.runTime, maxSize)
	switch {
	case errors.Is(err, launch.ErrTooMuchOutput):
		return nil, tooLarge(path)
	case err != nil:
		return nil, fmt.Errorf("cannot run %s: %w", path, err)
	}
	return parse(path, out)
}

// parse reads facts: a JSON object of texts, numbers and truth values. It returns the valid facts, and an error with
// every fault of the text.
func parse(path string, text []byte) (map[string]string, error) {
	var values map[string]json.RawMessage
	if err := json.Unmarshal(text, &values); err != nil || values == nil {
		return nil, fmt.Errorf("%s does not give one JSON object", path)
	}
	facts := make(map[string]string, len(values))
	var faults []error
	for _, name := range sorted(values) {
		value := string(values[name])
		switch value[0] {
		case '"':
			_ = json.Unmarshal(values[name], &value) // it was decoded as JSON
		case '{', '[', 'n':
			faults = append(faults, fmt.Errorf("%s: the fact %.80q is neither a text, a number nor true or false", path, name))
			continue
		}
		if err := selector.CheckFact(name, value); err != nil {
			faults = append(faults, fmt.Errorf("%s: %w", path, err))
			continue
		}
		facts[name] = value
	}
	return facts, errors.Join(faults...)
}
