package host

import (
	"cmp"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"drover/internal/agent/cgroup"
	"drover/internal/agent/instance"
	"drover/internal/agent/launch"
	"drover/internal/agent/liveness"
	"drover/internal/agent/locate"
	"drover/internal/agent/procfs"
	"drover/internal/agent/trail"
	"drover/internal/process"
)

// neighboursShare is how much longer a list of neighbours serves than it took: a thousand starts at once must not read
// /proc a thousand times, and a start soon after a stop must see what another program has started since.
const neighboursShare = 10

// neighbours are all processes of the host, each with one of its links. The zero value is empty.
type neighbours struct {
	mu sync.Mutex
	// until is when the list no longer serves.
	until time.Duration
	list  []*neighbour
}

// neighbour is a process of the list. A cheap look tells which of thousands may be a copy; all starts share the closer
// looks at one of them, because otherwise a thousand starts would look at a thousand processes each.
type neighbour struct {
	pid int
	// link is the executable or the directory.
	link string
	// interprets says that link is an executable that runs scripts.
	interprets bool

	birth sync.Once
	run   string // that of runAt

	sight   sync.Once
	details procfs.Info // the executable, the arguments and the directory

	once     sync.Once
	info     procfs.Info
	stranger bool
}

// outsider is a process that may be a copy: it was born in no run of a drover, or in a run of this drover.
type outsider struct {
	procfs.Info
	id  instance.Identity
	run string
}

// Copies implements operation.Trees.
func (h *Host) Copies(spec *process.Spec, pid int, kept func(run string) bool) []instance.UnwatchedCopy {
	account, err := h.names.account(spec.User)
	if err != nil {
		return nil // the start says so
	}
	dir, named := spec.Dir(), pid != 0
	like, err := within(h.files, account.Name, dir, func() *likeness { return newLikeness(spec, account) })
	if err != nil {
		return nil // the start fails in the directory, too
	}
	like.kept = pid > 0 && h.keptAsMain(pid)
	if spec.ByName() && !named {
		return h.copies(h.findByName(spec, account), like, kept)
	}
	alike := h.alike(like, pid, kept)
	if len(alike) == 0 {
		return nil
	}
	alike, err = within(h.files, account.Name, dir, func() []procfs.Info {
		return slices.DeleteFunc(alike, func(info procfs.Info) bool {
			return spec.Foreground() && !like.kept && !like.runs(info, named)
		})
	})
	if err != nil {
		return nil
	}
	return h.copies(alike, like, kept)
}

// findByName returns what Look finds for a spec by its name.
func (h *Host) findByName(spec *process.Spec, account launch.Account) (all []procfs.Info) {
	found := h.search(h.queryOf(spec, account, instance.Ownership{})).Process
	if found == nil {
		return nil
	}
	starts := map[int]uint64{}
	for _, m := range found.All {
		starts[m.ID.PID] = m.ID.StartTicks
	}
	for _, pid := range slices.Sorted(maps.Keys(starts)) {
		if info, err := h.fs.Info(pid); err == nil && info.StartTicks == starts[pid] {
			all = append(all, info)
		}
	}
	return all
}

// alike returns the processes that may be copies; pid is that of Copies. On a large host this takes long, and it asks
// no file system that may hang.
func (h *Host) alike(like *likeness, pid int, kept func(run string) bool) (alike []procfs.Info) {
	named := pid != 0
	for _, n := range h.neighbours(like) {
		if pid > 0 && n.pid != pid || !like.mayMatch(n, named) {
			continue
		}
		n.birth.Do(func() { n.run = h.runAt(n.pid) })
		if n.run != "" && (!h.grouped() || kept(n.run)) {
			continue // most of them, if drover runs many
		}
		if like.spec.Foreground() && !named {
			n.sight.Do(func() { n.details = procfs.Info{Exe: n.link, Args: h.fs.Args(n.pid), Cwd: h.fs.Cwd(n.pid)} })
			if !like.inDir(n.details.Cwd) && !like.line(n.details) {
				continue
			}
		}
		n.once.Do(func() { n.info, n.stranger = h.closer(n) })
		if !n.stranger || pid < 0 && n.info.PPID != -pid || !like.matches(n.info, named) {
			continue
		}
		if info, err := h.fs.Info(n.pid); err == nil && like.matches(info, named) {
			alike = append(alike, info)
		}
	}
	return alike
}

// copies returns the processes that no drover keeps, without their children.
func (h *Host) copies(alike []procfs.Info, like *likeness, kept func(run string) bool) (all []instance.UnwatchedCopy) {
	parents := map[int]bool{}
	var found []outsider
	for _, info := range alike {
		s, ok := h.outsider(info)
		if !ok {
			continue
		}
		if s.run, ok = h.birthRun(info.PID); ok && (s.run == "" || !kept(s.run)) && h.fs.Same(s.id) {
			found, parents[info.PID] = append(found, s), true
		}
	}
	for _, s := range found {
		if parents[s.PPID] {
			continue // it belongs to another copy
		}
		since, err := h.fs.StartTime(s.StartTicks)
		if err != nil {
			continue
		}
		all = append(all, instance.UnwatchedCopy{
			ID: s.id, Run: s.run, Cmdline: printable(s.Args), SameLine: like.line(s.Info), Since: since,
		})
	}
	return all
}

// birthRun reports whether a process may be a copy, as far as its birth goes, and returns the run of this drover that
// it was born in, if there was one.
func (h *Host) birthRun(pid int) (run string, ok bool) {
	if h.grouped() {
		if run = h.runAt(pid); run != "" {
			return run, true
		}
	}
	return "", h.unmarked(pid)
}

// unmarked reports that no drover has started a process or an ancestor of it. It is false for a process of the kernel,
// and for a moment while a process executes a program.
func (h *Host) unmarked(pid int) bool {
	if h.fs.Exe(pid) == "" {
		return false
	}
	mark, certain := liveness.MarkOf(h.fs, pid)
	return certain && mark == ""
}

// grouped reports whether the runs of this drover have control groups, which no other drover has.
func (h *Host) grouped() bool { return h.tree.Mode() != cgroup.ModeNone }

// neighbours lists the processes of the host, with the link that like looks at first. The list is dropped when it no
// longer serves.
func (h *Host) neighbours(like *likeness) []*neighbour {
	of, link := &h.byDirectory, h.fs.Cwd
	if like.spec.Foreground() {
		of, link = &h.byProgram, h.fs.Exe
	}
	of.mu.Lock()
	defer of.mu.Unlock()
	began := SinceBoot()
	if of.list != nil && began <= of.until {
		return of.list
	}
	pids, err := h.fs.PIDs()
	if err != nil {
		h.log.Warn("cannot list the processes of the host", "error", err)
	}
	all, self := make([]*neighbour, 0, len(pids)), os.Getpid()
	for _, pid := range pids {
		if to := link(pid); pid > 1 && pid != self && to != "" {
			all = append(all, &neighbour{pid: pid, link: to, interprets: interprets(program(to))})
		}
	}
	now := SinceBoot()
	serves := neighboursShare * (now - began)
	until := now + serves
	of.until, of.list = until, all
	time.AfterFunc(serves, func() {
		of.mu.Lock()
		defer of.mu.Unlock()
		if of.until == until {
			of.list = nil
		}
	})
	return all
}

// closer returns what is known of a process, and what outsider reports of it.
func (h *Host) closer(n *neighbour) (info procfs.Info, ok bool) {
	if n.run == "" && !h.unmarked(n.pid) {
		return info, false // the cheapest look first
	}
	info, err := h.fs.Info(n.pid)
	if err != nil {
		return info, false
	}
	_, ok = h.outsider(info)
	return info, ok
}

// outsider reports whether a process may be a copy, as far as its place goes: it is one of this host, outside
// containers. The run is missing.
func (h *Host) outsider(info procfs.Info) (s outsider, ok bool) {
	pid := info.PID
	id, err := h.fs.Identify(pid)
	if err != nil || info.Kernel || info.Zombie() || info.Exe == "" || info.StartTicks != id.StartTicks {
		return s, false
	}
	s = outsider{Info: info, id: id}
	// In a container, a path belongs to another filesystem.
	own, theirs := h.fs.PIDNamespace(os.Getpid()), h.fs.PIDNamespace(pid)
	return s, theirs == own || theirs == "" || own == ""
}

// likeness says which processes are copies of the process of a spec.
type likeness struct {
	spec  *process.Spec
	uid   int64
	words []string
	// exact says that words are the whole command line. file is the executable or script, links resolved; wanted is the
	// script that file runs if it is an interpreter.
	exact        bool
	file, wanted string
	// dir is the directory, and real the same with its links resolved, as far as they can be.
	dir, real string
	// kept says that the process has been named by its pid, and that another supervisor keeps it as its own. Its
	// program may have dropped the rights of root, or have executed another one.
	kept bool
}

func newLikeness(spec *process.Spec, account launch.Account) *likeness {
	l := &likeness{spec: spec, uid: int64(account.UID), dir: filepath.Clean(spec.Dir())}
	l.real, _ = trail.Resolve(spec.Dir()) // then only dir counts
	if spec.Foreground() {
		l.words, l.exact = process.Words(spec.Run)
		l.file = file(l.words[0], spec)
		l.wanted = locate.ScriptOf(l.file, l.words[1:])
	}
	return l
}

// interprets reports whether a file is an interpreter of scripts.
func interprets(file string) bool { return locate.ScriptOf(file, []string{"script"}) != "" }

// inDir reports whether a directory is the one of the spec.
func (l *likeness) inDir(cwd string) bool { return cwd != "" && (cwd == l.dir || cwd == l.real) }

// program returns the file of an executable, which may have been replaced.
func program(exe string) string { return strings.TrimSuffix(exe, " (deleted)") }

// file returns the file of a command, links resolved; empty if there is none.
func file(word string, spec *process.Spec) string {
	for _, file := range candidates(word, spec) {
		if real, err := trail.Resolve(file); err == nil {
			return real
		}
	}
	return ""
}

// candidates are the paths that a command may have, the first that exists counts.
func candidates(word string, spec *process.Spec) (paths []string) {
	switch {
	case word == "":
	case strings.Contains(word, "/"):
		paths = []string{absolute(word, spec.Dir())}
	default:
		dirs := cmp.Or(spec.Environment["PATH"], launch.DefaultPath)
		for dir := range strings.SplitSeq(dirs, ":") {
			paths = append(paths, filepath.Join(dir, word))
		}
	}
	return paths
}

func absolute(file, dir string) string {
	if path.IsAbs(file) {
		return path.Clean(file)
	}
	return path.Join(dir, file)
}

// mayMatch reports whether a closer look at a process is worth its price.
func (l *likeness) mayMatch(n *neighbour, named bool) bool {
	if l.kept {
		return true
	}
	if !l.spec.Foreground() {
		return named || l.inDir(n.link)
	}
	return n.interprets || program(n.link) == l.file
}

// matches reports whether a process has the account and the name, and the command line or the directory unless it is
// named: a program may have changed both. A program in the foreground has to run the same file, too.
func (l *likeness) matches(info procfs.Info, named bool) bool {
	if l.kept {
		return l.uid == 0 || int64(info.UID) == l.uid
	}
	if int64(info.UID) != l.uid && (l.uid != 0 || !l.spec.ByName()) { // Look finds those of all accounts for root, too
		return false
	}
	if !l.spec.Foreground() {
		return (named || l.inDir(info.Cwd)) && locate.MatchName(info, l.spec.ProcessName)
	}
	return l.file != "" && (named || l.inDir(info.Cwd) || l.line(info))
}

// runs reports whether a process executes the same file, and an interpreter the same script. An interpreter without a
// script has its program in the command line, so the command line must be the same unless the process is named.
func (l *likeness) runs(info procfs.Info, named bool) bool {
	script := l.script(info)
	if program(info.Exe) != l.file {
		if script == "" {
			return false
		}
		real, err := trail.Resolve(absolute(script, info.Cwd))
		return err == nil && real == l.file
	}
	if l.wanted == "" && script == "" && interprets(l.file) {
		return named || l.line(info)
	}
	return l.wanted == script ||
		l.wanted != "" && absolute(l.wanted, l.spec.Dir()) == absolute(script, info.Cwd)
}

// script is what an interpreter runs.
func (l *likeness) script(info procfs.Info) string {
	if len(info.Args) == 0 {
		return ""
	}
	return locate.ScriptOf(program(info.Exe), info.Args[1:])
}

// line reports whether a process was started with the command line of the spec.
func (l *likeness) line(info procfs.Info) bool {
	if !l.exact || len(info.Args) == 0 {
		return false
	}
	if program(info.Exe) == l.file {
		return slices.Equal(info.Args[1:], l.words[1:])
	}
	if n := len(info.Args) - len(l.words[1:]); n < 1 || !slices.Equal(info.Args[n:], l.words[1:]) {
		return false
	}
	at := slices.Index(info.Args, l.script(info))
	return at >= 0 && slices.Equal(info.Args[at+1:], l.words[1:])
}

// printable is a command line for people.
func printable(args []string) string {
	const most = 200
	text := strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, strings.ToValidUTF8(strings.Join(args, " "), ""))
	if len(text) > most {
		return strings.ToValidUTF8(text[:most], "") + "…"
	}
	return text
}
