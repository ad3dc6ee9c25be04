package term

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/charmbracelet/x/ansi"
)

func TestCut(t *testing.T) {
	for _, c := range []struct {
		line  string
		width int
		want  string
	}{
		{"abc", 3, "abc"},
		{"abcd", 3, "abc"},
		{"", 3, ""},
		{"主机abc", 5, "主机a"},
		{"主机", 3, "主"},
		{"\x1b[32mrunning\x1b[0m x", 9, "\x1b[32mrunning\x1b[0m x"},
		{"\x1b[32mrunning\x1b[0m x", 3, "\x1b[32mrun\x1b[0m"},
	} {
		if got := ansi.TruncateWc(c.line, c.width, ""); got != c.want {
			t.Errorf("%q in %d cells is %q, want %q", c.line, c.width, got, c.want)
		}
	}
	if got := fitted(strings.Repeat("x\n", 30), io.Discard); strings.Count(got, "x") != 24 {
		t.Errorf("a screen of 24 lines shows %q", got)
	}
}

// TestRedraw: looks follow each other, the slower the longer they take, and the terminal is as before in each case.
func TestRedraw(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		begun := time.Now()
		var at []time.Duration
		var out bytes.Buffer
		err := Redraw(ctx, &out, 2*time.Second, func(w io.Writer) error {
			at = append(at, time.Since(begun))
			if len(at) == 2 {
				<-time.After(time.Second) // virtual: a slow server
			}
			if len(at) == 3 {
				cancel()
			}
			_, err := fmt.Fprintln(w, "look", len(at))
			return err
		})
		if err != nil || fmt.Sprint(at) != "[0s 2s 13s]" {
			t.Errorf("looks at %v, %v", at, err)
		}
		text := out.String()
		if !strings.HasPrefix(text, "\x1b[?1049h") || !strings.HasSuffix(text, "\x1b[?1049l") ||
			!strings.Contains(text, "look 2") {
			t.Errorf("it wrote %q", text)
		}
		out.Reset()
		wrong := errors.New("wrong")
		if err := Redraw(t.Context(), &out, time.Second, func(io.Writer) error { return wrong }); !errors.Is(err, wrong) ||
			!strings.HasSuffix(out.String(), "\x1b[?1049l") {
			t.Errorf("%v, %q", err, out.String())
		}
	})
}
