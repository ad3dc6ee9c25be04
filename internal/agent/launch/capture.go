package launch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"drover/internal/clip"
)

// maxSaid is how much of the error output of a captured program is in its error, in bytes.
const maxSaid = 200

// ErrTooMuchOutput is returned by Capture for a program that writes too much.
var ErrTooMuchOutput = errors.New("too much output")

// Capture runs a program of the owner of this host to its end, with the account of this process, in a process group of
// its own and with a small environment. It returns what the program writes to stdout. It ends the group after the given
// time, or when ctx ends. It returns ErrTooMuchOutput for more than size bytes.
func Capture(ctx context.Context, path string, most time.Duration, size int) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	out, said := &bounded{most: size}, &bounded{most: maxSaid, drops: true}
	path, err := filepath.Abs(path) // the program runs in another directory
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, path)
	cmd.Env, cmd.Dir, cmd.WaitDelay = []string{"PATH=" + DefaultPath, "LANG=C"}, "/", time.Second
	cmd.Stdout, cmd.Stderr = out, said
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	// The leader of the group is not reaped before Run returns, so its number is still its own.
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	err = cmd.Run()
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return nil, fmt.Errorf("it has not ended within %s", most)
	case out.full:
		return nil, ErrTooMuchOutput
	case err != nil:
		return nil, fmt.Errorf("it has failed: %w%s", err, reason(said.kept))
	}
	return out.kept, nil
}

// reason returns the error output of a program as a part of an error.
func reason(said []byte) string {
	text := strings.TrimSpace(clip.Head(string(said), maxSaid))
	if text == "" {
		return ""
	}
	return fmt.Sprintf(": %q", text)
}

// bounded keeps the first bytes that are written to it. It rejects more, or drops more. It does not embed a Buffer,
// whose ReadFrom would take everything.
type bounded struct {
	kept        []byte
	most        int
	drops, full bool
}

// Write implements io.Writer.
func (b *bounded) Write(p []byte) (int, error) {
	room := min(b.most-len(b.kept), len(p))
	b.kept = append(b.kept, p[:room]...)
	if room == len(p) {
		return room, nil
	}
	b.full = true
	if !b.drops {
		return room, io.ErrShortWrite
	}
	return len(p), nil
}
