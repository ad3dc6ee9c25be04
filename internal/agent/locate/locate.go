// Package locate finds the running process that a spec means: by its pid file and name, or, without a pid file, by
// its name and directory. It owns the judgement whether a pid is credible. It only reads: it keeps nothing, waits for
// nothing and sends no signal.
package locate

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"drover/internal/agent/instance"
	"drover/internal/agent/launch"
	"drover/internal/agent/procfs"
	"drover/internal/agent/trail"
	"drover/internal/process"
)

// Query says which process is meant.
type Query struct {
	// ProcName is the base name of the executable or script. It may be empty if PIDPath names a file, which then
	// decides alone.
	ProcName string
	// PIDPath is the absolute path of the pid file or of the directory that it is in; empty to look by name.
	PIDPath string
	// Account is the account of the process; only its processes count. With the zero value, root, the processes of all
	// accounts count.
	Account launch.Account
	// Visit opens the file at PIDPath; nil is trail.Plain.
	Visit trail.Visit
	// SetupPath is the absolute directory that the process is installed in.
	SetupPath string
	// Count asks for a count of Matches even if there is a pid file, which costs a look at every process of the host.
	Count bool
	// Other reports whether a process belongs to others: it is not found by name. Own reports whether a process was
	// started for this spec: it is found before any other. Either may be nil.
	Other, Own func(instance.Identity) bool
	// Looks are those of everybody who looks by name on this host; nil looks for this query alone.
	Looks *Looks
}

// Looks looks at all processes of a host for everybody who looks by name. It is safe for concurrent use.
type Looks struct{ rounds *procfs.Rounds[look] }

// look keeps the processes that somebody wants, not all: their arguments may be long.
type look []*search

// search is one search among the processes of a look: the test of a process, and the processes that pass the test.
type search struct {
	is    func(procfs.Info) bool
	found []procfs.Info
}

// NewLooks returns looks at the processes of proc.
func NewLooks(proc procfs.FS) *Looks {
	return &Looks{procfs.NewRounds(func(l *look) error {
		pids, err := proc.PIDs()
		for _, pid := range pids {
			info, err := proc.Info(pid)
			if pid <= 1 || err != nil || info.Zombie() {
				continue
			}
			for _, w := range *l {
				if w.is(info) {
					w.found = append(w.found, info)
				}
			}
		}
		return err
	})}
}

// all returns the processes for which is returns true. is must not block.
func (l *Looks) all(is func(procfs.Info) bool) ([]procfs.Info, error) {
	w := &search{is: is}
	_, err := l.rounds.Take(func(k *look) { *k = append(*k, w) })
	return w.found, err
}

// LiveProcess is a process that Find has found.
type LiveProcess struct {
	ID instance.Identity
	// PIDFile is the file that it was found by, empty when it was by name; PIDFileTime is when that was written.
	PIDFile     string
	PIDFileTime time.Time
	// Resolved is the file without links.
	Resolved string
	// Matches is how many live processes there are of that name, below SetupPath or in the pid file; 1 if not counted.
	Matches int
	// All are the matches, if they were counted.
	All []Match
}

// Match is a live process with the right name in the right place.
type Match struct {
	ID instance.Identity
	// UID is its effective user id, Cwd its working directory; Head says that no other match has started it.
	UID  int
	Cwd  string
	Head bool
	ppid int
}

// Result is the outcome of a look.
type Result struct {
	// Process is nil if there is no such process.
	Process *LiveProcess
	// Note says in a caller's words why nothing was found, or what is odd. Cause is the kind of trouble.
	Note  string
	Cause process.CauseID
	// Doubt says that the pid file names a process that may be another one, as the note explains.
	Doubt bool
	// PID is the one in the pid file that was written at PIDFileTime, if its process was not found; 0 without such a
	// file.
	PID         int
	PIDFileTime time.Time
}

// Find looks for a process. It never blocks on the file at PIDPath, unless the filesystem itself hangs.
func Find(proc procfs.FS, q Query) Result {
	switch {
	case q.ProcName != "":
	case q.PIDPath == "":
		return Result{Note: "proc_name is empty"}
	case q.isDirectory():
		return Result{
			Note:  "pid file " + q.PIDPath + " is a directory: only a process with a name is found there",
			Cause: process.CauseOddPIDFile,
		}
	}
	if q.PIDPath == "" {
		return q.byName(proc)
	}
	var r Result
	switch file, err := q.readPIDFile(q.PIDPath); {
	case errors.Is(err, errDirectory):
		r = q.byDirectory(proc)
	case err != nil:
		r = unreadable(q.PIDPath, err)
	default:
		if r = result(q.check(proc, file)); r.Process == nil {
			r.PID, r.PIDFileTime = file.pid, file.time
		}
	}
	if r.Process != nil && q.Count && q.ProcName != "" {
		all, _, err := q.search(proc)
		if err != nil {
			return Result{Process: r.Process, Note: err.Error()}
		}
		if r.Process.Matches, r.Process.All = len(all),
			all; !slices.ContainsFunc(all, func(m Match) bool { return m.ID == r.Process.ID }) {
			r.Process.Matches++
		}
	}
	return r
}

func (q Query) visit(path string, do func(*trail.Trail) error) error {
	if q.Visit == nil {
		return trail.Plain(path, do)
	}
	return q.Visit(path, do)
}

// isDirectory reports whether PIDPath names a directory with the pid file.
func (q Query) isDirectory() (is bool) {
	_ = q.visit(q.PIDPath, func(way *trail.Trail) error { // readPIDFile reports the error
		is = way.IsDir()
		return nil
	})
	return is
}

func result(found *LiveProcess, err error) Result {
	if err != nil {
		var doubt *ambiguousError
		return Result{Note: err.Error(), Cause: process.CauseOddPIDFile, Doubt: errors.As(err, &doubt)}
	}
	return Result{Process: found}
}

// unreadable is the result for a pid file that is missing or has no pid in it.
func unreadable(path string, err error) Result {
	r := Result{Note: fmt.Sprintf("pid file %s %s", path, err), Cause: process.CauseOddPIDFile}
	if errors.Is(err, errNoFile) {
		r.Cause = process.CauseNoPIDFile
	}
	return r
}

// byName finds the process among the matches that no other match has started: the newest that was started for this
// process, or else the oldest.
func (q Query) byName(proc procfs.FS) Result {
	all, others, err := q.search(proc)
	if err != nil {
		return Result{Note: err.Error()}
	}
	if len(all) == 0 {
		note := fmt.Sprintf("no process %s runs in or from %s", q.ProcName, q.SetupPath)
		if len(others) > 0 {
			note += fmt.Sprintf(" but others, such as pid %d", others[0].ID.PID)
		}
		return Result{Note: note}
	}
	heads := slices.DeleteFunc(slices.Clone(all), func(m Match) bool { return !m.Head })
	if len(heads) == 0 {
		heads = all // their parents changed during the look
	}
	byAge := func(a, b Match) int {
		return cmp.Or(cmp.Compare(a.ID.StartTicks, b.ID.StartTicks), cmp.Compare(a.ID.PID, b.ID.PID))
	}
	which, found := "the oldest", slices.MinFunc(heads, byAge).ID
	if own := slices.DeleteFunc(slices.Clone(heads), func(m Match) bool {
		return q.Own == nil || !q.Own(m.ID)
	}); len(own) > 0 {
		which, found = "the newest that drover has started", slices.MaxFunc(own, byAge).ID
	}
	r := Result{Process: &LiveProcess{ID: found, Matches: len(all), All: all}}
	if len(heads) > 1 {
		r.Note = fmt.Sprintf("%d processes %s run in or from %s: pid %d is %s", len(heads), q.ProcName, q.SetupPath,
			found.PID, which)
	}
	return r
}

// search looks at every process of the host, and sets apart the processes that belong to others.
func (q Query) search(proc procfs.FS) (found, others []Match, err error) {
	places := []string{filepath.Clean(q.SetupPath)}
	if real, err := trail.Resolve(q.SetupPath); err == nil && real != places[0] {
		places = append(places, real)
	}
	self, links := os.Getpid(), q.linkTargets() // a look must not wait for a file system
	targets := func() []string { return links }
	looks := q.Looks
	if looks == nil {
		looks = NewLooks(proc)
	}
	all, err := looks.all(func(info procfs.Info) bool {
		return info.PID != self && livesIn(info, places) && q.matches(info, targets)
	})
	if err != nil {
		return nil, nil, err
	}
	namespace := proc.PIDNamespace(self)
	for _, info := range all {
		// In a container, a path belongs to another filesystem.
		if theirs := proc.PIDNamespace(info.PID); theirs != namespace && theirs != "" && namespace != "" {
			continue
		}
		id, err := proc.Identify(info.PID)
		if err == nil && id.StartTicks == info.StartTicks && (q.runs(info) || q.Own != nil && q.Own(id)) {
			found = append(found, Match{ID: id, UID: info.UID, Cwd: info.Cwd, ppid: info.PPID})
		}
	}
	for i := range found {
		found[i].Head = !slices.ContainsFunc(found, func(parent Match) bool { return parent.ID.PID == found[i].ppid })
	}
	found, others = q.withoutOthers(found)
	return found, others, nil
}

// withoutOthers sets the processes apart that belong to others, with their descendants.
func (q Query) withoutOthers(found []Match) (left, removed []Match) {
	if q.Other == nil {
		return found, nil
	}
	others := map[int]bool{}
	for _, m := range found {
		others[m.ID.PID] = q.Other(m.ID)
	}
	for grown := true; grown; {
		grown = false
		for _, m := range found {
			if !others[m.ID.PID] && others[m.ppid] {
				others[m.ID.PID], grown = true, true
			}
		}
	}
	for _, m := range found {
		if others[m.ID.PID] {
			removed = append(removed, m)
		} else {
			left = append(left, m)
		}
	}
	return left, removed
}

// livesIn reports whether the executable or the script is below one of the places, or the working directory is one of
// them.
func livesIn(info procfs.Info, places []string) bool {
	if slices.Contains(places, info.Cwd) {
		return true
	}
	exe := executable(info)
	below := func(file string) bool {
		return path.IsAbs(file) && slices.ContainsFunc(places, func(place string) bool {
			rest, below := strings.CutPrefix(file, strings.TrimSuffix(place, "/"))
			return below && strings.HasPrefix(rest, "/")
		})
	}
	return below(exe) || len(info.Args) > 0 && below(scriptOf(path.Base(exe), info.Args[1:]))
}

// matches is MatchName; without a name it accepts every program. It also accepts a program that was started through a
// link with that name, if the link is where the program is installed. targets is linkTargets.
func (q Query) matches(info procfs.Info, targets func() []string) bool {
	if q.ProcName == "" {
		return !info.Kernel
	}
	if MatchName(info, q.ProcName) {
		return true
	}
	exe := executable(info)
	// If the program was called by another name, such as one of many names for one file, it is another program.
	if info.Kernel || exe == "" || len(info.Args) == 0 || path.Base(info.Args[0]) != path.Base(exe) {
		return false
	}
	return slices.Contains(targets(), exe)
}

// linkTargets returns the targets of links with the name where the program is installed.
func (q Query) linkTargets() []string {
	var targets []string
	for _, dir := range []string{"", "bin", "sbin"} {
		if target, err := trail.Resolve(filepath.Join(q.SetupPath, dir, q.ProcName)); err == nil {
			targets = append(targets, target)
		}
	}
	return targets
}

// calledBy is the name of a process for people.
func calledBy(info procfs.Info) string {
	if exe := executable(info); exe != "" {
		return path.Base(exe)
	}
	return info.Comm
}
