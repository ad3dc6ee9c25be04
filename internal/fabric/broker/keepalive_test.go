package broker_test

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"drover/internal/fabric"
	"drover/internal/pki/pkitest"
)

// TestKeepAlive: the kernel watches the peer at both ends of an agent's connection, to a broker or to a relay, and at
// the accepting end of the connections of proxies and of other brokers. The sockets themselves say so.
func TestKeepAlive(t *testing.T) {
	n := newNetwork(t)
	relay, _ := n.relay(testArea)
	n.dial(relay.URL(), n.user(testArea, n.IssueAgent).Identity)
	eventually(t, "the relay to join", relay.Joined)
	k, dir := pkitest.New(t), filepath.Join(t.TempDir(), "fabric")
	first := joined(t, dir, peerTLS(t, k), k)
	second := joined(t, dir, peerTLS(t, k), k, first)
	who := issue(t, first)
	agent := dialTLS(t, first, who.Identity, trusting(t, k))
	if _, err := agent.Serve(orders(who.key), "", 1, echo); err != nil {
		t.Fatal(err)
	}
	eventually(t, "an answer through both brokers", func() bool { return answered(t, second, k, who.key) })
	for _, c := range []struct {
		what  string
		port  int
		dials bool // whether drover makes the dialling end, and not the NATS server
	}{
		{"clients of a broker", n.Port(), true},
		{"clients of a relay", relay.Port(), true},
		{"proxies", n.LeafPort(), false},
		{"other brokers", first.ClusterPort(), false},
	} {
		accepting, dialling := sockets(t, c.port)
		if len(accepting) == 0 || len(dialling) == 0 {
			t.Fatalf("%s: %d and %d ends", c.what, len(accepting), len(dialling))
		}
		watched(t, c.what+", accepting end", accepting)
		if c.dials {
			watched(t, c.what+", dialling end", dialling)
		}
	}
}

// sockets returns the descriptors of this process that are ends of connections to a port.
func sockets(t *testing.T, port int) (accepting, dialling []int) {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		fd, err := strconv.Atoi(e.Name())
		if err != nil {
			t.Fatal(err)
		}
		local, _ := unix.Getsockname(fd)
		peer, err := unix.Getpeername(fd)
		if err != nil { // not a connection
			continue
		}
		if at, ok := local.(*unix.SockaddrInet4); ok && at.Port == port {
			accepting = append(accepting, fd)
		}
		if at, ok := peer.(*unix.SockaddrInet4); ok && at.Port == port {
			dialling = append(dialling, fd)
		}
	}
	return accepting, dialling
}

// watched checks that the kernel ends each of these connections 25 s after its peer has vanished, whether bytes are on
// their way or not.
func watched(t *testing.T, what string, fds []int) {
	t.Helper()
	for _, fd := range fds {
		for _, o := range []struct {
			name                string
			level, option, want int
		}{
			{"SO_KEEPALIVE", unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1},
			{"TCP_KEEPIDLE", unix.IPPROTO_TCP, unix.TCP_KEEPIDLE, 10},
			{"TCP_KEEPINTVL", unix.IPPROTO_TCP, unix.TCP_KEEPINTVL, 5},
			{"TCP_KEEPCNT", unix.IPPROTO_TCP, unix.TCP_KEEPCNT, 3},
			{"TCP_USER_TIMEOUT", unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, 25_000},
		} {
			if got, err := unix.GetsockoptInt(fd, o.level, o.option); err != nil || got != o.want {
				t.Errorf("%s: %s is %d, want %d (%v)", what, o.name, got, o.want, err)
			}
		}
	}
}

// TestUnanswered: a client whose requests go unanswered keeps a link over which the broker answers, and makes another
// one if nothing passes over it.
func TestUnanswered(t *testing.T) {
	t.Parallel()
	b := start(t)
	way := newWay(t, strings.TrimPrefix(b.URL(), "nats://"))
	a := &agent{up: make(chan struct{}, 16), down: make(chan struct{}, 16)}
	var err error
	a.Conn, err = fabric.Dial(t.Context(), fabric.DialConfig{
		URLs: []string{"nats://" + way.address()}, Identity: issue(t, b).Identity, NoPings: true, Name: t.Name(),
		Log: testLog(t), OnConnected: func() { a.up <- struct{}{} }, OnLost: func() { a.down <- struct{}{} },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Close)
	await(t, "the link", a.up)
	a.Unanswered()
	if len(a.down) > 0 || !a.Connected() {
		t.Fatal("a link over which the broker answers was closed")
	}
	way.freeze()
	a.Unanswered()
	await(t, "the end of the link over which nothing passes", a.down)
	await(t, "another link", a.up)
}

// way passes connections on, until it is frozen: then nothing more comes through those that are there.
type way struct {
	t      *testing.T
	l      net.Listener
	target string
	passes sync.WaitGroup

	mu     sync.Mutex
	frozen chan struct{} // of the connections to come
	ends   []net.Conn
}

func newWay(t *testing.T, target string) *way {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &way{t: t, l: l, target: target, frozen: make(chan struct{})}
	w.passes.Go(w.accept)
	t.Cleanup(func() {
		_ = l.Close()
		w.mu.Lock()
		for _, c := range w.ends {
			_ = c.Close()
		}
		w.mu.Unlock()
		w.passes.Wait()
	})
	return w
}

func (w *way) address() string { return w.l.Addr().String() }

func (w *way) freeze() {
	w.mu.Lock()
	defer w.mu.Unlock()
	close(w.frozen)
	w.frozen = make(chan struct{})
}

func (w *way) accept() {
	for {
		from, err := w.l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			w.t.Error(err)
			return
		}
		to, err := net.DialTimeout("tcp", w.target, time.Second)
		if err != nil {
			w.t.Error(err)
			return
		}
		w.mu.Lock()
		frozen := w.frozen
		w.ends = append(w.ends, from, to)
		w.mu.Unlock()
		w.passes.Go(func() { pass(from, to, frozen) })
		w.passes.Go(func() { pass(to, from, frozen) })
	}
}

// pass passes on what comes. What comes once frozen is closed is lost, and the end of the connection, too.
func pass(from, to net.Conn, frozen <-chan struct{}) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		select {
		case <-frozen:
			if err != nil {
				return
			}
			continue
		default:
		}
		if err != nil {
			_ = to.Close()
			return
		}
		if _, err := to.Write(buffer[:n]); err != nil {
			return
		}
	}
}
