package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"drover/internal/agent/procfs"
)

// Limits are the limits on all processes of a group together; zero is no limit.
type Limits struct {
	Memory int64 // bytes, swap included; beyond it the kernel ends processes of the group
	CPU    int   // percent of one CPU; beyond it they wait
	Tasks  int64 // processes and threads; beyond it none can start
}

// Unenforced is a limit that is not in force.
type Unenforced struct {
	Limit string // memory, cpu or tasks
	Err   error
}

// Limit sets limits on an empty group, and returns the limits that are not in force afterwards. In the version 2
// hierarchy they apply to a child that is born in the group. Elsewhere they apply to a child if Add or Bind is called
// before the child starts others.
func (g *Group) Limit(l Limits) []Unenforced {
	var failed []Unenforced
	for _, d := range l.demands() {
		h := g.controllers.home(d.controller)
		err := h.err
		if err == nil {
			err = g.put(h, d)
			g.controllers.recordError(d.controller, err)
		}
		if err != nil {
			failed = append(failed, Unenforced{Limit: d.limit, Err: err})
		}
	}
	return failed
}

// Change sets other limits on a group with processes, and returns the limits that it could not change. If memory.max is
// lowered below what the group uses, the kernel takes memory back, and ends processes of the group if it cannot
// (cgroups(7)). In a version 1 hierarchy only a limit that the group has had since Limit can change: Change moves no
// process.
func (g *Group) Change(from, to Limits) []Unenforced {
	var failed []Unenforced
	for _, d := range slices.Concat(changed(from, to).demands(), from.lifted(to)) {
		h := g.controllers.home(d.controller)
		err := h.err
		if err == nil {
			err = g.replace(h, d)
		}
		if err != nil {
			failed = append(failed, Unenforced{Limit: d.limit, Err: err})
		}
	}
	return failed
}

// changed returns the limits of to that differ.
func changed(from, to Limits) Limits {
	if from.Memory == to.Memory {
		to.Memory = 0
	}
	if from.CPU == to.CPU {
		to.CPU = 0
	}
	if from.Tasks == to.Tasks {
		to.Tasks = 0
	}
	return to
}

// replace writes one limit in place of another.
func (g *Group) replace(h home, d demand) error {
	dir, settings := g.dir, d.v2
	if !h.v2 {
		dir, settings = filepath.Join(h.dir, g.id), d.v1
	}
	err := writeAll(dir, settings)
	if errors.Is(err, unix.EINVAL) { // one limit bounds the other: the lower one goes first, the higher one last
		settings = slices.Clone(settings)
		slices.Reverse(settings)
		err = writeAll(dir, settings)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("the process runs in no group of the %s controller", d.controller)
	case errors.Is(err, unix.EBUSY): // of version 1, for memory alone
		return errors.New("its run uses more memory than that")
	}
	return err
}

func writeAll(dir string, settings []setting) error {
	for _, s := range settings {
		err := write(filepath.Join(dir, s.file), s.value)
		if err != nil && (!s.optional || !errors.Is(err, fs.ErrNotExist)) {
			return err
		}
	}
	return nil
}

// put writes one limit.
func (g *Group) put(h home, d demand) error {
	dir, settings := g.dir, d.v2
	if !h.v2 {
		dir, settings = filepath.Join(h.dir, g.id), d.v1
		if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("cannot create cgroup: %w", err)
		}
	}
	if err := writeAll(dir, settings); err != nil {
		return fmt.Errorf("cannot limit cgroup %s: %w", g.id, err)
	}
	if !h.v2 {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.bound = append(g.bound, v1Binding{controller: d.controller, dir: dir})
	}
	return nil
}

// v1Binding connects a group to a directory in the version 1 hierarchy of a controller.
type v1Binding struct{ controller, dir string }

// Bind puts a child that was born in the group under the limits that only a version 1 hierarchy can keep. Without such
// limits it does nothing. The child must not have started others yet.
func (g *Group) Bind(pid int) error {
	g.mu.Lock()
	bound := g.bound
	g.mu.Unlock()
	var failed error
	for _, b := range bound {
		if err := write(filepath.Join(b.dir, procsFile), strconv.Itoa(pid)); err != nil {
			err = fmt.Errorf("cannot put pid %d under the %s limit of cgroup %s: %w", pid, b.controller, g.id, err)
			g.controllers.recordError(b.controller, err)
			failed = errors.Join(failed, err)
		}
	}
	return failed
}

// Unenforced returns the limits that this host cannot keep. It knows those that cannot work at all, and those that
// failed at the last run.
func (t *Tree) Unenforced(l Limits) []Unenforced {
	var failed []Unenforced
	for _, d := range l.demands() {
		if err := t.controllers.trouble(d.controller); err != nil {
			failed = append(failed, Unenforced{Limit: d.limit, Err: err})
		}
	}
	return failed
}

// OOMKilled returns how many processes of a group the kernel killed because memory ran out. It is 0 if the kernel does
// not count them, as for most groups without a memory limit. Package supervisor asks at an interval.
func (t *Tree) OOMKilled(id string) (int, error) {
	n, err := t.counter(id, "memory.events", "memory.oom_control", func(file string) (string, error) {
		return field(file, "oom_kill")
	})
	if err != nil {
		return 0, fmt.Errorf("cannot count what was ended in cgroup %s: %w", id, err)
	}
	return int(n), nil
}

// Marks are what the kernel has noted of a group in its life; 0 is unknown or none.
type Marks struct {
	// Peak is the most memory that its processes together had at a time, with their part of the page cache, in bytes.
	Peak int64
	// Refused is how often the group got no new process or thread because of a limit of tasks.
	Refused int64
}

// Marks returns the marks of a group. The kernel has them for groups with the controllers of memory and of tasks.
func (t *Tree) Marks(id string) (m Marks, err error) {
	m.Peak, err = t.counter(id, "memory.peak", "memory.max_usage_in_bytes", func(file string) (string, error) {
		data, err := os.ReadFile(file)
		return strings.TrimSpace(string(data)), err
	})
	if err == nil {
		m.Refused, err = t.counter(id, "pids.events", "pids.events", func(file string) (string, error) {
			return field(file, "max")
		})
	}
	if err != nil {
		err = fmt.Errorf("cannot read what cgroup %s had: %w", id, err)
	}
	return m, err
}

// counter reads a number of a group: of the first file that exists, in version 2 or 1. It is 0 if there is none.
func (t *Tree) counter(id, v2, v1 string, read func(file string) (string, error)) (int64, error) {
	if t.mode == ModeNone || checkID(id) != nil {
		return 0, nil
	}
	files := []string{filepath.Join(t.base, id, v2)}
	for _, base := range t.controllers.v1Bases() {
		files = append(files, filepath.Join(base, id, v1))
	}
	for _, file := range files {
		value, err := read(file)
		if vanished(err) {
			continue
		}
		if err != nil {
			return 0, err
		}
		return strconv.ParseInt(value, 10, 64)
	}
	return 0, nil
}

// demand is a limit with its settings in both versions.
type demand struct {
	limit, controller string
	v2, v1            []setting
}

// setting is a file of a group. Kernels without swap accounting lack the optional files.
type setting struct {
	file, value string
	optional    bool
}

// cpuPeriod is the kernel's default, in microseconds.
const cpuPeriod = 100_000

func (l Limits) demands() []demand {
	var list []demand
	if l.Memory > 0 {
		bytes := strconv.FormatInt(l.Memory, 10)
		list = append(list, demand{
			limit: "memory", controller: "memory",
			v2: []setting{{file: "memory.max", value: bytes}, {file: "memory.swap.max", value: "0", optional: true}},
			// Keep this order: the limit with swap must never be the lower one.
			v1: []setting{
				{file: "memory.limit_in_bytes", value: bytes},
				{file: "memory.memsw.limit_in_bytes", value: bytes, optional: true},
			},
		})
	}
	if l.CPU > 0 {
		quota := strconv.Itoa(l.CPU * (cpuPeriod / 100))
		period := strconv.Itoa(cpuPeriod)
		list = append(list, demand{
			limit: "cpu", controller: "cpu",
			v2: []setting{{file: "cpu.max", value: quota + " " + period}},
			v1: []setting{{file: "cpu.cfs_period_us", value: period}, {file: "cpu.cfs_quota_us", value: quota}},
		})
	}
	if l.Tasks > 0 {
		most := []setting{{file: "pids.max", value: strconv.FormatInt(l.Tasks, 10)}}
		list = append(list, demand{limit: "tasks", controller: "pids", v2: most, v1: most})
	}
	return list
}

// lifted are the settings that lift the limits that another set of limits does not have.
func (l Limits) lifted(to Limits) (list []demand) {
	const none, none1 = "max", "-1"
	if l.Memory > 0 && to.Memory == 0 {
		list = append(list, demand{
			limit: "memory", controller: "memory",
			v2: []setting{{file: "memory.max", value: none}, {file: "memory.swap.max", value: none, optional: true}},
			v1: []setting{
				{file: "memory.memsw.limit_in_bytes", value: none1, optional: true},
				{file: "memory.limit_in_bytes", value: none1},
			},
		})
	}
	if l.CPU > 0 && to.CPU == 0 {
		list = append(list, demand{
			limit: "cpu", controller: "cpu",
			v2: []setting{{file: "cpu.max", value: none}}, v1: []setting{{file: "cpu.cfs_quota_us", value: none1}},
		})
	}
	if l.Tasks > 0 && to.Tasks == 0 {
		most := []setting{{file: "pids.max", value: none}}
		list = append(list, demand{limit: "tasks", controller: "pids", v2: most, v1: most})
	}
	return list
}

// controllers finds where limits can be set. It does not ask the kernel before the first limit.
type controllers struct {
	proc procfs.FS
	mode Mode
	base string
	name string

	mu    sync.Mutex
	homes map[string]home
	// last is the error of the last attempt to use a controller.
	last map[string]error
	// v1 has our directories in version 1 hierarchies. Each group in them also exists in the tree.
	v1 []string
}

// home is where a controller keeps the limits of our groups.
type home struct {
	v2  bool
	dir string // in version 1
	err error
}

// openControllers finds the directories of an earlier agent.
func openControllers(proc procfs.FS, mounts []procfs.Mount, mode Mode, base, name string) *controllers {
	c := &controllers{
		proc: proc, mode: mode, base: base, name: name, homes: map[string]home{},
		last: map[string]error{},
	}
	if mode == ModeNone {
		return c
	}
	for _, controller := range []string{"memory", "cpu", "pids"} {
		for _, dir := range c.places(mounts, controller) {
			if info, err := os.Stat(dir); err == nil && info.IsDir() && !slices.Contains(c.v1, dir) {
				c.v1 = append(c.v1, dir)
			}
		}
	}
	return c
}

// places returns the possible paths of our directory in the version 1 hierarchy of a controller.
func (c *controllers) places(mounts []procfs.Mount, controller string) []string {
	var dirs []string
	for _, m := range mounts {
		if m.Type != "cgroup" || !slices.Contains(m.Options, controller) {
			continue
		}
		dirs = append(dirs, filepath.Join(m.Point, c.name))
		if own, ok := c.proc.OwnCgroup(controller); ok {
			dirs = append(dirs, filepath.Join(below(m, own), c.name))
		}
	}
	return dirs
}

func (c *controllers) home(controller string) home {
	c.mu.Lock()
	defer c.mu.Unlock()
	h, ok := c.homes[controller]
	if !ok {
		h = c.find(controller)
		c.homes[controller] = h
	}
	return h
}

// find looks for a controller, in the hierarchy of the tree first.
func (c *controllers) find(controller string) home {
	if c.mode == ModeNone {
		return home{err: errors.New("cannot create a control group")}
	}
	if c.mode == ModeV2 && enable(c.base, controller) {
		return home{v2: true}
	}
	mounts, err := c.proc.Mounts()
	if err != nil {
		return home{err: err}
	}
	for _, dir := range c.places(mounts, controller) {
		if usable(dir) {
			if !slices.Contains(c.v1, dir) {
				c.v1 = append(c.v1, dir)
			}
			return home{dir: dir}
		}
	}
	return home{err: fmt.Errorf("no %s controller can be written", controller)}
}

// enable delegates a controller to the groups in base, and reports whether they have it.
func enable(base, controller string) bool {
	const offered, handed = "cgroup.controllers", "cgroup.subtree_control"
	if !lists(filepath.Join(base, offered), controller) {
		// The top of the hierarchy may not have enabled it yet.
		if write(filepath.Join(filepath.Dir(base), handed), "+"+controller) != nil ||
			!lists(filepath.Join(base, offered), controller) {
			return false
		}
	}
	return lists(filepath.Join(base, handed), controller) || write(filepath.Join(base, handed), "+"+controller) == nil
}

// lists reports whether a file of words contains a word.
func lists(path, word string) bool {
	data, err := os.ReadFile(path)
	return err == nil && slices.Contains(strings.Fields(string(data)), word)
}

// recordError keeps the last result of a controller, for trouble; nil clears it.
func (c *controllers) recordError(controller string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last[controller] = err
}

func (c *controllers) trouble(controller string) error {
	if err := c.home(controller).err; err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.last[controller]
}

func (c *controllers) v1Bases() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.v1)
}

// remove removes the directories of a group in version 1 hierarchies.
func (c *controllers) remove(id string) error {
	for _, base := range c.v1Bases() {
		if err := removeAll(filepath.Join(base, id)); err != nil {
			return err
		}
	}
	return nil
}

// removeBases removes our directories in version 1 hierarchies. A directory with groups in it stays.
func (c *controllers) removeBases() {
	for _, base := range c.v1Bases() {
		_ = unix.Rmdir(base)
	}
}
