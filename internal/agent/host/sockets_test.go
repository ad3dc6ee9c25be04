package host_test

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"

	"drover/internal/agent/instance"
)

// TestOtherHolder lets a program hold a socket: it is another program for all but the run that it belongs to.
func TestOtherHolder(t *testing.T) {
	h := open(t, t.TempDir())
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	socket, err := l.(*net.TCPListener).File()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command("sh", "-c", "exec sleep 600")
	c.ExtraFiles = []*os.File{socket}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = c.Process.Kill()
		_ = c.Wait()
	}()
	port := l.Addr().(*net.TCPAddr).AddrPort().Port()
	socket.Close()
	l.Close()
	sockets := h.Listeners(port)
	if len(sockets) != 1 {
		t.Fatalf("at port %d listen %v", port, sockets)
	}
	id, err := live().Identify(c.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	if who := h.OtherHolder(sockets, instance.Scope{Root: id}); who != "" {
		t.Errorf("its own socket is that of %s", who)
	}
	if who, want := h.OtherHolder(sockets, instance.Scope{}), fmt.Sprintf("pid %d (s", id.PID); !strings.HasPrefix(who, want) {
		t.Errorf("another scope: held by %q, want %q", who, want)
	}
	if who := h.OtherHolder([]uint64{1}, instance.Scope{}); who == "" {
		t.Error("a socket that nobody shows counts as the own one")
	}
}
