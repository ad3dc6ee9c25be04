package service_test

import (
	"bytes"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"drover/internal/service"
)

// reader is a writer whose other end reads only while it is open.
type reader struct {
	open chan struct{}
	mu   sync.Mutex
	got  bytes.Buffer
}

func (r *reader) Write(p []byte) (int, error) {
	<-r.open
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.got.Write(p)
}

// TestAReaderThatDoesNotRead: what it has not taken waits up to a bound, what is beyond is counted, and the reader is
// told when it is back. Nothing blocks meanwhile, and nothing is out of order.
func TestAReaderThatDoesNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to := &reader{open: make(chan struct{})}
		q := service.NewQueue(to)
		line := strings.Repeat("x", 1023) + "\n"
		for range 3000 {
			if n, err := io.WriteString(q, line); n != len(line) || err != nil {
				t.Fatalf("a write returns %d, %v", n, err)
			}
		}
		if lost := q.Lost(); lost != 3000-1024 {
			t.Errorf("%d lines are lost, want what is more than 1 MiB", lost)
		}
		close(to.open)
		synctest.Wait()
		to.mu.Lock()
		got := to.got.String()
		to.mu.Unlock()
		if n := strings.Count(got, line); n != 1024 {
			t.Errorf("%d lines have arrived", n)
		}
		if !strings.Contains(got, "drover: 1976 lines are lost here: ") {
			t.Error("the reader does not learn of what it has missed")
		}
		_, _ = io.WriteString(q, "last\n")
		synctest.Wait()
		if to.got.String()[len(got):] != "last\n" {
			t.Errorf("then comes %q", to.got.String()[len(got):])
		}
		q.Close(t.Context())
	})
}

// TestLastWords: a program ends within seconds, whoever reads what it says.
func TestLastWords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to := &reader{open: make(chan struct{})}
		begun := time.Now()
		service.Say(to, "no\n")
		if waited := time.Since(begun); waited != 2*time.Second {
			t.Errorf("it waited for %s", waited)
		}
		close(to.open)
		synctest.Wait() // the first word arrives after all
		service.Say(to, "yes\n")
		synctest.Wait()
		if got := to.got.String(); !strings.Contains(got, "yes\n") {
			t.Errorf("a reader gets %q", got)
		}
	})
}

// TestWatchdog: systemd hears of the program until a loop gives the signs of life, and then of the loop alone. A
// watchdog of another process is left alone.
func TestWatchdog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notify")
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	hears := func(within time.Duration) bool {
		var b [64]byte
		if err := socket.SetReadDeadline(time.Now().Add(within)); err != nil {
			t.Fatal(err)
		}
		n, err := socket.Read(b[:])
		return err == nil && string(b[:n]) == "WATCHDOG=1"
	}
	with := func(pid int, limit time.Duration) func(string) string {
		return func(name string) string {
			return map[string]string{
				"NOTIFY_SOCKET": path, "WATCHDOG_PID": strconv.Itoa(pid),
				"WATCHDOG_USEC": strconv.FormatInt(limit.Microseconds(), 10),
			}[name]
		}
	}
	s := service.New(io.Discard, io.Discard, with(os.Getpid(), time.Hour))
	defer s.Close()
	if !hears(time.Minute) {
		t.Error("a program that starts gives no sign of life")
	}
	s.Beat()
	if !hears(time.Minute) {
		t.Error("a loop gives no sign of life")
	}
	other := service.New(io.Discard, io.Discard, with(os.Getpid()+1, time.Hour))
	defer other.Close()
	other.Beat()
	s.Beat()
	if !hears(time.Minute) || hears(time.Millisecond) {
		t.Error("a process that nobody watches gives a sign of life")
	}
	(*service.Service)(nil).Beat() // nobody watches a server of a test
}

// TestBrokenPipe: a reader that goes away ends no program.
func TestBrokenPipe(t *testing.T) {
	s := service.New(io.Discard, io.Discard, func(string) string { return "" })
	defer s.Close()
	if err := syscall.Kill(os.Getpid(), syscall.SIGPIPE); err != nil {
		t.Fatal(err)
	}
}
