package netns_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// namespaces is where ip(8) keeps its names, which are the test's own: the mounts of its namespace are private.
const namespaces = "/run/netns"

// place is a host: a network namespace with an address in each of its networks.
type place struct {
	name string
	// addresses are by network.
	addresses map[string]string
}

// The networks: the core, where the server is, and two areas that nobody routes to.
const (
	core  = "core"
	north = "north"
	south = "south"
)

// places returns the hosts. Those of the two areas have the same addresses.
func places() []place {
	return []place{
		{"server", map[string]string{core: "10.77.0.1"}},
		{"caller", map[string]string{core: "10.77.0.9"}},
		{"relay", map[string]string{core: "10.77.0.60"}},
		{"near", map[string]string{core: "10.77.0.50"}},
		{"north-p1", map[string]string{core: "10.77.0.11", north: "192.168.5.1"}},
		{"north-p2", map[string]string{core: "10.77.0.12", north: "192.168.5.2"}},
		{"north-a", map[string]string{north: "192.168.5.11"}},
		{"north-b", map[string]string{north: "192.168.5.12"}},
		{"south-p1", map[string]string{core: "10.77.0.21", south: "192.168.5.1"}},
		{"south-p2", map[string]string{core: "10.77.0.22", south: "192.168.5.2"}},
		{"south-a", map[string]string{south: "192.168.5.11"}},
		{"south-b", map[string]string{south: "192.168.5.12"}},
	}
}

// network is the hosts and the wires between them.
type network struct {
	t      testing.TB
	places map[string]place
}

// newNetwork makes the namespaces. They end with the test's pid namespace: nothing outside refers to them.
func newNetwork(t testing.TB) *network {
	t.Helper()
	if err := os.MkdirAll(namespaces, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", namespaces, "tmpfs", 0, ""); err != nil {
		t.Fatal(err)
	}
	n := &network{t: t, places: map[string]place{}}
	t.Cleanup(func() {
		for name := range n.places {
			n.run("ip", "netns", "delete", name)
		}
		for _, lan := range []string{core, north, south} {
			n.run("ip", "netns", "delete", "lan-"+lan)
		}
		if err := unix.Unmount(namespaces, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	for _, lan := range []string{core, north, south} {
		n.run("ip", "netns", "add", "lan-"+lan)
		n.in("lan-"+lan, "ip", "link", "add", "br0", "type", "bridge")
		n.in("lan-"+lan, "ip", "link", "set", "br0", "up")
	}
	for i, p := range places() {
		n.places[p.name] = p
		n.run("ip", "netns", "add", p.name)
		n.in(p.name, "ip", "link", "set", "lo", "up")
		for lan, address := range p.addresses {
			port := fmt.Sprintf("%s%d", lan, i)
			n.run("ip", "link", "add", port, "netns", "lan-"+lan, "type", "veth", "peer", "name", lan, "netns", p.name)
			n.in("lan-"+lan, "ip", "link", "set", port, "master", "br0", "up")
			n.in(p.name, "ip", "address", "add", address+"/24", "dev", lan)
			n.in(p.name, "ip", "link", "set", lan, "up")
		}
	}
	return n
}

// run runs a command, which must succeed.
func (n *network) run(line ...string) {
	n.t.Helper()
	if out, err := exec.Command(line[0], line[1:]...).CombinedOutput(); err != nil {
		n.t.Fatalf("%s: %v: %s", strings.Join(line, " "), err, out)
	}
}

// enter is what a command line begins with so that the program runs on a host. ip netns exec would hide the control
// groups.
func enter(name string) []string {
	return []string{"nsenter", "--net=" + filepath.Join(namespaces, name), "--"}
}

func (n *network) in(name string, line ...string) {
	n.t.Helper()
	n.run(append(enter(name), line...)...)
}

// link is the way between two hosts that share a network.
type link struct{ a, b string }

// direction says which packets of a link are lost.
type direction string

const (
	there = direction("there") // those from a to b
	back  = direction("back")  // those from b to a
	both  = direction("both")
)

// cut loses all packets of a link from now on. They vanish at the one who should receive them: nobody is told.
func (n *network) cut(l link, d direction) { n.rules("-I", l, d) }

// heal undoes a cut.
func (n *network) heal(l link, d direction) { n.rules("-D", l, d) }

func (n *network) rules(change string, l link, d direction) {
	n.t.Helper()
	from, to := n.shared(l)
	if d != back {
		n.in(l.b, "iptables", "-w", change, "INPUT", "-s", from, "-j", "DROP")
	}
	if d != there {
		n.in(l.a, "iptables", "-w", change, "INPUT", "-s", to, "-j", "DROP")
	}
}

// shared returns the addresses of both ends in the network that they share.
func (n *network) shared(l link) (a, b string) {
	n.t.Helper()
	for lan, address := range n.places[l.a].addresses {
		if other, ok := n.places[l.b].addresses[lan]; ok {
			return address, other
		}
	}
	n.t.Fatalf("%s and %s share no network", l.a, l.b)
	return "", ""
}

// inside calls fn on a thread that is on a host: what it opens belongs there.
func inside(host string, fn func() error) error {
	// The thread is given back only where it is again where it was.
	runtime.LockOSThread()
	home, err := os.Open(fmt.Sprintf("/proc/self/task/%d/ns/net", unix.Gettid()))
	if err != nil {
		return err
	}
	defer home.Close()
	there, err := os.Open(filepath.Join(namespaces, host))
	if err != nil {
		return err
	}
	defer there.Close()
	if err := unix.Setns(int(there.Fd()), unix.CLONE_NEWNET); err != nil {
		return err
	}
	done := fn()
	if err := unix.Setns(int(home.Fd()), unix.CLONE_NEWNET); err != nil {
		return err
	}
	runtime.UnlockOSThread()
	return done
}

// dialFrom returns a function that connects from a host.
func dialFrom(host string) func(ctx context.Context, protocol, address string) (net.Conn, error) {
	return func(ctx context.Context, protocol, address string) (conn net.Conn, err error) {
		err = inside(host, func() (err error) {
			conn, err = (&net.Dialer{}).DialContext(ctx, protocol, address)
			return err
		})
		return conn, err
	}
}
