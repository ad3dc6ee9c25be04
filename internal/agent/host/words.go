package host

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"drover/internal/agent/launch"
	"drover/internal/agent/trail"
	"drover/internal/process"
)

// maxWords is how much drover reads of the end of a log, in bytes.
const maxWords = 32 << 10

// LastWords implements operation.Commands: only a regular file counts that the account of the process may read.
func (h *Host) LastWords(spec *process.Spec, since time.Time) string {
	path := spec.LogPath()
	if path == "" {
		return ""
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(spec.Dir(), path)
	}
	words, err := within(h.files, spec.User, path, func() string {
		var words string
		visit := func(path string, do func(*trail.Trail) error) error { return h.Visit(spec, path, do) }
		newest, err := trail.Newest(visit, path)
		if err != nil {
			return ""
		}
		_ = visit(newest, func(way *trail.Trail) error { // an unreadable log has no last words
			if !way.IsRegular() {
				return nil
			}
			file, err := way.Open()
			if err != nil {
				return err
			}
			defer file.Close() //nolint:errcheck // nothing was written
			words = tail(file, since)
			return nil
		})
		return words
	})
	if err != nil {
		h.log.Warn("cannot read last output", "file", path, "error", err)
	}
	return words
}

// Visit implements operation.Commands: with the rights of the account of the process, as far as the policy of the host
// lets.
func (h *Host) Visit(spec *process.Spec, path string, do func(*trail.Trail) error) error {
	account, err := h.names.account(spec.User)
	if err != nil {
		return err
	}
	return h.visitor(account)(path, do)
}

func (h *Host) visitor(account launch.Account) trail.Visit {
	return func(path string, do func(*trail.Trail) error) error { return account.Visit(h.may, path, do) }
}

// tail returns the last whole lines of a file; empty if nobody wrote to the file after since.
func tail(file *os.File, since time.Time) string {
	info, err := file.Stat()
	if err != nil || info.ModTime().Before(since.Add(-fileTolerance)) {
		return ""
	}
	from := max(info.Size()-maxWords, 0)
	data, err := io.ReadAll(io.NewSectionReader(file, from, maxWords))
	if err != nil {
		return ""
	}
	text := strings.ToValidUTF8(strings.ReplaceAll(string(data), "\x00", ""), "\uFFFD")
	if _, rest, cut := strings.Cut(text, "\n"); cut && from > 0 && strings.TrimSpace(rest) != "" {
		text = rest
	}
	return strings.TrimRight(text, "\n")
}
