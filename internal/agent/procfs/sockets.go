package procfs

import (
	"bufio"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// listening is the state of a listening socket in /proc/net/tcp.
const listening = "0A"

// Listeners returns the sockets that listen at a TCP port of this network namespace, by inode, in ascending order. The
// kernel lists them before all connections, so that it takes no longer on a host with many (proc_pid_net(5)).
func (f FS) Listeners(port uint16) ([]uint64, error) {
	var found []uint64
	for _, name := range []string{"self/net/tcp", "self/net/tcp6"} {
		inodes, err := f.listeners(name, port)
		if err != nil && !os.IsNotExist(err) { // a host may have no IPv6
			return nil, err
		}
		found = append(found, inodes...)
	}
	slices.Sort(found)
	return found, nil
}

// listeners reads one table. Its columns are: number, local address, remote address, state, queues, timer, retransmits,
// uid, timeout, inode.
func (f FS) listeners(name string, port uint16) (found []uint64, err error) {
	file, err := os.Open(filepath.Join(f.root, name))
	if err != nil {
		return nil, err
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	for head := true; lines.Scan(); head = false {
		words := strings.Fields(lines.Text())
		if head || len(words) < 10 {
			continue
		}
		if words[3] != listening {
			break
		}
		_, hex, _ := strings.Cut(words[1], ":")
		if at, err := strconv.ParseUint(hex, 16, 16); err != nil || at != uint64(port) {
			continue
		}
		if inode, err := strconv.ParseUint(words[9], 10, 64); err == nil {
			found = append(found, inode)
		}
	}
	return found, lines.Err()
}

// Holders returns the processes that have one of these sockets open, as far as the caller may see their descriptors. It
// reads the descriptors of all processes.
func (f FS) Holders(sockets []uint64) (pids []int, err error) {
	all, err := f.PIDs()
	if err != nil {
		return nil, err
	}
	links := make(map[string]bool, len(sockets))
	for _, inode := range sockets {
		links["socket:["+strconv.FormatUint(inode, 10)+"]"] = true
	}
	for _, pid := range all {
		dir := strconv.Itoa(pid) + "/fd"
		names, err := f.names(dir)
		if err != nil {
			continue // it has ended, or it is of another account
		}
		if slices.ContainsFunc(names, func(fd string) bool { return links[f.link(filepath.Join(dir, fd))] }) {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}
