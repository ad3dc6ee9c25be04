package ui

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"golang.org/x/sys/unix"

	"drover/client"
)

// console is a pseudo-terminal: what a program prints to it is kept.
type console struct {
	person, program *os.File
	mu              sync.Mutex
	text            strings.Builder
	changed         chan struct{}
}

func newConsole(t *testing.T) *console {
	t.Helper()
	person, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetPointerInt(int(person.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	number, err := unix.IoctlGetInt(int(person.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetWinsize(int(program.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 80}); err != nil {
		t.Fatal(err)
	}
	c := &console{person: person, program: program, changed: make(chan struct{}, 1)}
	// bubbletea's reader of program may go on for a moment after a panic, so the garbage collector closes program.
	t.Cleanup(func() { _ = person.Close() })
	go func() {
		buffer := make([]byte, 4096)
		for {
			n, err := person.Read(buffer)
			if err != nil {
				return
			}
			c.mu.Lock()
			c.text.Write(buffer[:n])
			c.mu.Unlock()
			select {
			case c.changed <- struct{}{}:
			default:
			}
		}
	}()
	return c
}

func (c *console) printed() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.text.String()
}

// await waits until the program has printed a text.
func (c *console) await(t *testing.T, text string) {
	t.Helper()
	over := time.NewTimer(20 * time.Second)
	defer over.Stop()
	for !strings.Contains(c.printed(), text) {
		select {
		case <-c.changed:
		case <-over.C:
			t.Fatalf("it did not print %q: %q", text, c.printed())
		}
	}
}

func modes(t *testing.T, c *console) unix.Termios {
	t.Helper()
	m, err := unix.IoctlGetTermios(int(c.program.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	return *m
}

// TestEventsAreHints: an event of the server makes one message, and its refusal says that there are none.
func TestEventsAreHints(t *testing.T) {
	var refuses atomic.Bool
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case refuses.Load():
			w.WriteHeader(http.StatusForbidden)
		case strings.HasSuffix(r.URL.Path, "/stream"):
			w.Header().Set("Content-Type", "text/event-stream")
			for range 50 {
				_, _ = w.Write([]byte("id: 1\ndata: {\"cursor\":1}\n\n"))
			}
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		default:
			_, _ = w.Write([]byte(`{"items":[]}`))
		}
	}))
	t.Cleanup(server.Close)
	c, err := client.New(client.Config{URL: server.URL, AppCode: "a", AppSecret: "b"})
	if err != nil {
		t.Fatal(err)
	}
	for _, refused := range []bool{false, true} {
		refuses.Store(refused)
		ctx, stop := context.WithCancel(t.Context())
		told := make(chan tea.Msg, 100)
		calls := &caller{client: c, send: func(m tea.Msg) { told <- m }}
		ended := make(chan struct{})
		go func() {
			calls.follow(ctx, place{kind: processes, filter: "shop/*"})
			close(ended)
		}()
		if m, ok := (<-told).(Happened); !ok || m.Lost != refused || m.of.filter != "shop/*" {
			t.Errorf("refused %v: %+v", refused, m)
		}
		stop()
		<-ended
		if n := len(told); n > 1 {
			t.Errorf("%d more messages at once", n)
		}
	}
}

// TestTerminalIsRestored: after a panic, after the end of the context (a signal) and after Ctrl-c, the terminal is in its
// former mode and shows its former screen.
func TestTerminalIsRestored(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"items":[]}`))
	}))
	t.Cleanup(server.Close)
	for name, end := range map[string]func(c *console, stop func()){
		"panic":  func(c *console, _ func()) { _, _ = c.person.WriteString("!") },
		"signal": func(_ *console, stop func()) { stop() },
		"key":    func(c *console, _ func()) { _, _ = c.person.WriteString("\x03") },
	} {
		t.Run(name, func(t *testing.T) {
			c := newConsole(t)
			former := modes(t, c)
			calls := &caller{}
			var err error
			if calls.client, err = client.New(client.Config{URL: server.URL, AppCode: "a", AppSecret: "b"}); err != nil {
				t.Fatal(err)
			}
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			ended := make(chan error, 1)
			go func() {
				ended <- run(ctx, c.program, c.program, State{server: "here"}, "", calls, &noticeWriter{},
					func(s State, msg tea.Msg) (State, []Do) {
						if k, ok := msg.(tea.KeyPressMsg); ok && k.String() == "!" {
							panic("a fault of drover")
						}
						return Update(s, msg)
					})
			}()
			c.await(t, "There is none yet.")
			if modes(t, c) == former {
				t.Error("the terminal is not in raw mode: this test sees nothing")
			}
			end(c, stop)
			err = <-ended
			if failed := err != nil; failed == (name == "key") {
				t.Errorf("ended with %v", err)
			}
			if modes(t, c) != former {
				t.Error("the mode of the terminal is another")
			}
			const leaveAltScreen, showCursor = "\x1b[?1049l", "\x1b[?25h"
			c.await(t, leaveAltScreen)
			c.await(t, showCursor)
			if text := c.printed(); strings.LastIndex(text, "\x1b[?1049h") > strings.LastIndex(text, leaveAltScreen) {
				t.Error("the alternate screen stays")
			}
		})
	}
}
