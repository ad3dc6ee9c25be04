package term

import (
	"bytes"
	"context"
	"io"
	"os"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"
	xterm "golang.org/x/term"
)

// share is how many times as long as the last look the pause before the next one is, at least. So a person who watches
// costs the server little, however much there is to see.
const share = 10

// Redraw shows what draw writes on the whole terminal, again and again, until ctx ends or draw fails. It waits every
// between two looks, and longer if a look takes long. At its end the terminal is as before.
func Redraw(ctx context.Context, out io.Writer, every time.Duration, draw func(w io.Writer) error) error {
	const enter, leave, home = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l", "\x1b[H"
	if _, err := io.WriteString(out, enter); err != nil {
		return err
	}
	defer io.WriteString(out, leave) //nolint:errcheck // the terminal is gone
	for {
		var b bytes.Buffer
		begun := time.Now()
		if err := draw(forPerson{&b}); ctx.Err() != nil {
			return nil //nolint:nilerr // the person has ended the command
		} else if err != nil {
			return err
		}
		took := time.Since(begun)
		if _, err := io.WriteString(out, home+fitted(b.String(), out)); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(max(every, share*took)):
		}
	}
}

// fitted cuts a text to the size of a terminal, and clears the rest of each line and of the screen.
func fitted(text string, out io.Writer) string {
	const restOfLine, restOfScreen = "\x1b[K", "\x1b[J"
	width, height := 80, 24
	if f, ok := out.(*os.File); ok {
		if w, h, err := xterm.GetSize(int(f.Fd())); err == nil && w > 0 && h > 0 {
			width, height = w, h
		}
	}
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if len(lines) > height {
		lines = lines[:height]
	}
	for i, line := range lines {
		lines[i] = ansi.TruncateWc(line, width, "") + restOfLine
	}
	return strings.Join(lines, "\r\n") + restOfScreen
}
