// Package facts knows what an agent reports of its host beside processes: the system, its size, and the facts of its
// owner in a directory. It owns the bounds of that directory, and runs its executables.
package facts

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"drover/internal/agent/procfs"
	"drover/internal/idle"
	"drover/internal/wire"
)

// Times and bounds that are not settings.
const (
	// readEvery is how often files are read, and runEvery how often executables run.
	readEvery = time.Minute
	// firstLoad is the time between the first two measurements of the load.
	firstLoad = 5 * time.Second
	runEvery  = 10 * time.Minute
	// mostDisks is the largest number of reported disks.
	mostDisks = 32
)

// Config is what a Collector needs.
type Config struct {
	FS procfs.FS
	// Dir is the directory of the owner's facts; it need not exist.
	Dir string
	// Labels are the labels of the agent's configuration.
	Labels map[string]string
	// Disks are directories of drover, whose file systems must have room.
	Disks []string
	// Notes say what is wrong with the agent itself; nil means nothing. Each is at most 255 bytes long.
	Notes func() []string
	Log   *slog.Logger
}

// Collector has the description of the host. Its methods are safe for concurrent use.
type Collector struct {
	cfg Config
	// runTime is how long an executable may run.
	runTime time.Duration

	loads loads

	mu           sync.Mutex
	host         wire.Host
	loggedFaults string // the faults that were logged last
	// full is since when the file systems of directories of drover have had no room, in Unix milliseconds.
	full map[string]int64
}

// New returns a collector that knows the size of the host and its labels. Run adds the rest.
func New(cfg Config) *Collector {
	k := &Collector{cfg: cfg, runTime: runTime, host: Machine(cfg.FS)}
	k.host.Labels, k.host.Gathering = cfg.Labels, true
	return k
}

// Host returns the present description, which the caller must not change.
func (c *Collector) Host() wire.Host {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.host
}

// Load returns how busy the host is, for a report; nil if the report does not need it.
func (c *Collector) Load(introduces bool) *wire.Load { return c.loads.report(introduces) }

// Machine describes the machine, except what takes longer to find out. It leaves out unreadable facts, because nothing
// depends on them.
func Machine(fs procfs.FS) wire.Host {
	h := wire.Host{OS: runtime.GOOS, CPUs: runtime.NumCPU()}
	var name unix.Utsname
	if err := unix.Uname(&name); err == nil {
		h.Arch, h.Kernel = unix.ByteSliceToString(name.Machine[:]), unix.ByteSliceToString(name.Release[:])
	}
	if memory, err := fs.MemTotal(); err == nil {
		h.Memory = memory
	}
	return h
}

// Run keeps the description current until ctx ends. It calls changed after each change, and after the first look.
func (c *Collector) Run(ctx context.Context, changed func()) error {
	wait := firstLoad
	ran, due := map[string]result{}, time.Time{}
	for {
		c.loads.measure(c.cfg.FS)
		run := !time.Now().Before(due)
		if run {
			due = time.Now().Add(runEvery)
		}
		host, faults := c.collect(ctx, ran, run)
		if ctx.Err() == nil && c.set(host, faults) {
			changed()
		}
		if !idle.Sleep(ctx, wait) {
			return nil
		}
		wait = readEvery
	}
}

// Collect describes the host once, and returns the faults of the owner's facts. It runs the executables.
func (c *Collector) Collect(ctx context.Context) (wire.Host, []error) {
	return c.collect(ctx, map[string]result{}, true)
}

// collect describes the host. ran has the results of the executables, which it runs again if run is set.
func (c *Collector) collect(ctx context.Context, ran map[string]result, run bool) (wire.Host, []error) {
	h := Machine(c.cfg.FS)
	h.Labels = c.cfg.Labels
	h.Distribution, h.Version = distribution()
	h.Disks, h.Full = disks(c.cfg.FS), c.withoutRoom()
	if c.cfg.Notes != nil {
		h.Notes = c.cfg.Notes()
	}
	var faults []error
	h.Facts, faults = c.owner(ctx, ran, run)
	return h, faults
}

// set stores a description, and reports whether it differs from the last one. It logs the faults if they differ.
func (c *Collector) set(h wire.Host, faults []error) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	told := ""
	if err := errors.Join(faults...); err != nil {
		told = err.Error()
	}
	if told != c.loggedFaults && told != "" {
		c.cfg.Log.Warn("left out facts of this host", "directory", c.cfg.Dir, "faults",
			strings.ReplaceAll(told, "\n", "; "))
	}
	c.loggedFaults = told
	if reflect.DeepEqual(h, c.host) {
		return false
	}
	c.host = h
	return true
}

// distribution returns ID and VERSION_ID of os-release(5); empty if there are none.
func distribution() (id, version string) {
	for _, path := range []string{"/etc/os-release", "/usr/lib/os-release"} {
		if text, err := readFile(path); err == nil {
			return osRelease(text)
		}
	}
	return "", ""
}

// osRelease reads os-release(5): lines of NAME=VALUE, with quotes or without.
func osRelease(text []byte) (id, version string) {
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		value = strings.Trim(value, `"'`)
		switch name {
		case "ID":
			id = value
		case "VERSION_ID":
			version = value
		}
	}
	return id, version
}

// disks returns the file systems on block devices, each device once, in the order of their paths. It may hang if a
// device hangs.
func disks(fs procfs.FS) []wire.Mount {
	mounts, err := fs.Mounts()
	if err != nil {
		return nil
	}
	seen := map[string]procfs.Mount{}
	for _, m := range mounts {
		if !strings.HasPrefix(m.Source, "/dev/") || strings.HasPrefix(m.Source, "/dev/loop") {
			continue
		}
		if known, twice := seen[m.Source]; !twice || m.Root == "/" && known.Root != "/" {
			seen[m.Source] = m
		}
	}
	sizes := map[string]int64{}
	for _, m := range seen {
		var s unix.Statfs_t
		if err := unix.Statfs(m.Point, &s); err == nil && s.Blocks > 0 {
			sizes[m.Point] = int64(s.Blocks) * int64(s.Bsize) //nolint:gosec,unconvert // types differ between architectures
		}
	}
	var list []wire.Mount
	for _, path := range sorted(sizes) {
		list = append(list, wire.Mount{Path: path, Size: sizes[path]})
	}
	return list[:min(len(list), mostDisks)]
}

// sorted returns the keys of a map in their order.
func sorted[V any](of map[string]V) []string {
	keys := make([]string, 0, len(of))
	for key := range of {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// Hostname is the name of the host, for display only.
func Hostname() string {
	name, _ := os.Hostname()
	return name
}
