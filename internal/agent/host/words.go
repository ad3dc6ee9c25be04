package host

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"drover/internal/agent/launch"
	"drover/internal/process"
)

// maxWords is how much is read of the end of a log, in bytes.
const maxWords = 32 << 10

// LastWords implements operation.Commands: only a regular file counts that the account of the process may read.
func (h *Host) LastWords(spec *process.Spec, since time.Time) string {
	path := spec.Identity.LogPath
	if path == "" {
		return ""
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(spec.Identity.SetupPath, path)
	}
	words, err := within(h.files, path, func() string {
		account, err := launch.LookupAccount("/", spec.Identity.User)
		if err != nil {
			return ""
		}
		file, err := account.Open(path)
		if err != nil {
			return ""
		}
		defer file.Close() //nolint:errcheck // nothing was written
		return tail(file, since)
	})
	if err != nil {
		h.log.Warn("last words could not be read", "file", path, "error", err)
	}
	return words
}

// tail returns the last whole lines of a file, unless nothing was written to it since then.
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
