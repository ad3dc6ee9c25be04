package procfs_test

import (
	"net"
	"os"
	"slices"
	"testing"

	"drover/internal/agent/procfs"
)

func TestListeners(t *testing.T) {
	const head = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
	fs := tree(t, map[string]string{
		"self/net/tcp": head +
			"   0: 0100007F:1F9A 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 71 1 0 100 0 0 10 0\n" +
			"   1: 00000000:0050 00000000:0000 0A 00000000:00000000 00:00000000 00000000    33        0 72 1 0 100 0 0 10 0\n" +
			"   2: 0100007F:1F9A 0100007F:AFC8 01 00000000:00000000 00:00000000 00000000     0        0 73 1 0 20 4 30 10 -1\n",
		"self/net/tcp6": head +
			"   0: 00000000000000000000000000000000:1F9A 00000000000000000000000000000000:0000 0A 0:0 00:0 0 0 0 69 1\n",
	})
	if got, err := fs.Listeners(8090); err != nil || !slices.Equal(got, []uint64{69, 71}) {
		t.Errorf("port 8090: %v, %v", got, err)
	}
	if got, err := fs.Listeners(81); err != nil || got != nil {
		t.Errorf("port 81: %v, %v", got, err)
	}
	if _, err := tree(t, map[string]string{"1/stat": ""}).Listeners(80); err != nil {
		t.Errorf("a kernel without networks: %v", err)
	}
}

func TestHolders(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	fs := procfs.New("/proc")
	sockets, err := fs.Listeners(l.Addr().(*net.TCPAddr).AddrPort().Port())
	if err != nil || len(sockets) != 1 {
		t.Fatalf("the test listens with %v, %v", sockets, err)
	}
	if pids, err := fs.Holders(sockets); err != nil || !slices.Contains(pids, os.Getpid()) {
		t.Errorf("held by %v, %v, want %d", pids, err, os.Getpid())
	}
	if pids, err := fs.Holders([]uint64{1}); err != nil || pids != nil {
		t.Errorf("a socket that nobody has: %v, %v", pids, err)
	}
}
