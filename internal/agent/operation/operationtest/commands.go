package operationtest

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"drover/internal/agent/instance"
	"drover/internal/agent/liveness"
	"drover/internal/agent/trail"
	"drover/internal/process"
)

// shell is the name of every command's process.
const shell = "sh"

// Script says how a command line behaves. The zero value ends at once with exit status 0.
type Script struct {
	// Takes is how long it runs once it has passed its gate.
	Takes time.Duration
	// Executes is how long it takes from its gate to its program.
	Executes time.Duration
	// Code is the exit status, Signal the signal that ends the command instead. Untold says that nobody learns either.
	Code   int
	Signal syscall.Signal
	Untold bool
	Output string
	// Begin is called when it passes its gate, End just before it ends.
	Begin func(run string)
	End   func(run string)
	// Refuse is why it cannot even be forked, Stuck why it cannot be released.
	Refuse error
	Stuck  error
	// Unrun says that it ends at its gate although it is released. Output then is what the gate says.
	Unrun bool
	// Flood says that it writes more than a question may, at once.
	Flood bool
}

// command is one run.
type command struct {
	w      *World
	id     instance.Identity
	run    string
	line   string
	script Script
	// gated says that the command waits at its gate, ran that it has passed the gate.
	gated bool
	ran   bool
	// executed is when it executes its program.
	executed time.Time
}

// Script sets how a command line behaves from its next start on.
func (w *World) Script(line string, s Script) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.scripts[line] = s
}

// Lines returns the command lines that have run, in order.
func (w *World) Lines() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.lines)
}

// Ends returns the trees that EndTree was called for.
func (w *World) Ends() []End {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.ends)
}

// Discards returns the runs that were discarded.
func (w *World) Discards() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.discards)
}

// Crash is the death of the agent: commands at their gate end unrun and all watches end. Everything else goes on.
func (w *World) Crash() {
	w.mu.Lock()
	w.alone = true
	clear(w.exits)
	var gated []instance.Identity
	for _, c := range w.runs {
		if c.gated {
			gated = append(gated, c.id)
		}
	}
	for _, p := range w.procs {
		clear(p.watchers)
	}
	w.mu.Unlock()
	for _, id := range gated {
		w.End(id, liveness.Exit{})
	}
}

// Revive starts the next agent.
func (w *World) Revive() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.alone = false
}

// Launch implements operation.Commands.
func (w *World) Launch(_ process.ID, run, line string, _ *process.Spec) (instance.Child, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s, ok := w.scripts[line]
	if !ok {
		w.t.Errorf("command %q has no script", line)
	}
	if s.Refuse != nil {
		return nil, s.Refuse
	}
	if _, ok := w.runs[run]; ok {
		w.t.Errorf("run %s is used twice", run)
	}
	c := &command{w: w, id: w.add(shell, run).id, run: run, line: line, script: s, gated: true}
	w.runs[run] = c
	return c, nil
}

// Identity implements instance.Child.
func (c *command) Identity() instance.Identity { return c.id }

// Release implements instance.Child.
func (c *command) Release() error {
	if c.script.Stuck != nil {
		return c.script.Stuck
	}
	c.w.mu.Lock()
	_, alive := c.w.procs[c.id]
	c.gated, c.ran = false, alive && !c.script.Unrun
	c.executed = time.Now().Add(c.script.Executes)
	if c.ran {
		c.w.lines = append(c.w.lines, c.line)
	}
	c.w.mu.Unlock()
	switch {
	case !alive:
		return fmt.Errorf("cannot release pid %d: %w", c.id.PID, os.ErrProcessDone)
	case c.script.Unrun:
		c.w.End(c.id, liveness.Exit{Known: true, Signal: syscall.SIGKILL})
		return nil
	}
	if c.script.Begin != nil {
		c.script.Begin(c.run)
	}
	if c.script.Takes <= 0 { // Go 1.26 crashes in a timer that is due at once, in a bubble under the race detector
		go c.end()
		return nil
	}
	time.AfterFunc(c.script.Takes, c.end)
	return nil
}

func (c *command) end() {
	c.w.mu.Lock()
	_, alive := c.w.procs[c.id]
	c.w.mu.Unlock()
	if !alive {
		return
	}
	if c.script.End != nil {
		c.script.End(c.run)
	}
	exit := liveness.Exit{Known: true, Code: c.script.Code, Signal: c.script.Signal}
	if c.script.Untold {
		exit = liveness.Exit{}
	}
	c.w.End(c.id, exit)
}

// Executes implements operation.Processes.
func (w *World) Executes(id instance.Identity) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.runs {
		if c.id == id {
			return time.Now().Before(c.executed)
		}
	}
	return false
}

// Abandon implements instance.Child.
func (c *command) Abandon() {
	c.w.mu.Lock()
	gated := c.gated
	c.gated = false
	c.w.mu.Unlock()
	if gated {
		c.w.End(c.id, liveness.Exit{Known: true, Code: 1})
	}
}

// Ran implements operation.Commands. A run whose proof is gone may have run.
func (w *World) Ran(run string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	c, ok := w.runs[run]
	return ok && c.ran || slices.Contains(w.discards, run)
}

// Output implements operation.Commands.
func (w *World) Output(run string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	c, ok := w.runs[run]
	if !ok || !c.ran && !c.script.Unrun {
		return ""
	}
	return c.script.Output
}

// Log has a log end with the words.
func (w *World) Log(path, words string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.logs[path] = words
}

// Visit implements operation.Commands.
func (w *World) Visit(_ *process.Spec, path string, do func(*trail.Trail) error) error {
	return trail.Plain(path, do)
}

// LastWords implements operation.Commands.
func (w *World) LastWords(spec *process.Spec, _ time.Time) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.logs[spec.LogPath()]
}

// Discard implements operation.Commands.
func (w *World) Discard(run string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.discards = append(w.discards, run)
}

// Members implements operation.Trees: the descendants of the root, unless a group holds them.
func (w *World) Members(s instance.Scope) []instance.Identity {
	w.mu.Lock()
	defer w.mu.Unlock()
	if s.Run != "" && !w.Ungrouped {
		return nil
	}
	return w.members(instance.Scope{Root: s.Root})
}

// Survivors implements operation.Trees.
func (w *World) Survivors(s instance.Scope) []instance.Identity {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.members(s)
}

// members are the live processes of a scope; the caller holds the lock.
func (w *World) members(s instance.Scope) (ids []instance.Identity) {
	in := map[instance.Identity]bool{s.Root: true}
	for _, id := range s.FormerMembers {
		in[id] = true
	}
	for grown := true; grown; {
		grown = false
		for id, p := range w.procs {
			if !in[id] && (in[p.parent] && p.parent != instance.Identity{} || p.run != "" &&
				(p.run == s.Run || slices.Contains(s.LeftoverRuns, p.run)) && !w.Ungrouped) {
				in[id], grown = true, true
			}
		}
	}
	for id := range in {
		if w.procs[id] != nil {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, func(a, b instance.Identity) int { return a.PID - b.PID })
	return ids
}

// Copies implements operation.Trees: those of SetCopies that live.
func (w *World) Copies(_ *process.Spec, pid int, kept func(run string) bool) []instance.UnwatchedCopy {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(w.copies), func(c instance.UnwatchedCopy) bool {
		p := w.procs[c.ID]
		return p == nil || c.Run != "" && kept(c.Run) || pid > 0 && c.ID.PID != pid || pid < 0 && p.parent.PID != -pid
	})
}

// SetCopies sets the copies that Copies returns while they live.
func (w *World) SetCopies(all ...instance.UnwatchedCopy) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.copies = slices.SortedFunc(slices.Values(all), func(a, b instance.UnwatchedCopy) int { return a.ID.PID - b.ID.PID })
}

// RunsOf implements operation.Trees.
func (w *World) RunsOf(prefix string) (runs []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range w.procs {
		if strings.HasPrefix(p.run, prefix) && !slices.Contains(runs, p.run) {
			runs = append(runs, p.run)
		}
	}
	return runs
}

// RunOf implements operation.Trees.
func (w *World) RunOf(id instance.Identity) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if p := w.procs[id]; p != nil {
		return p.run
	}
	return ""
}

// EndTree implements operation.Trees: with a grace SIGTERM first, then SIGKILL for the rest.
func (w *World) EndTree(ctx context.Context, s instance.Scope,
	grace time.Duration,
) (ended []liveness.Member, left []int, err error) {
	end := End{Root: s.Root, Run: s.Run}
	w.mu.Lock()
	w.ends = append(w.ends, end)
	names := map[instance.Identity]string{}
	doomed := slices.DeleteFunc(w.spare(s, w.members(s)), func(id instance.Identity) bool {
		p := w.procs[id]
		if p != nil {
			names[id] = p.name
		}
		return p == nil // it has ended just now
	})
	w.mu.Unlock()
	if w.OnEndTree != nil {
		left, err = w.OnEndTree(end)
		return nil, left, err
	}
	if grace > 0 && len(doomed) > 0 {
		for _, id := range doomed {
			_ = w.Signal(id, syscall.SIGTERM)
		}
		until := time.Now().Add(grace)
		for time.Now().Before(until) && len(w.Survivors(instance.Scope{FormerMembers: doomed})) > 0 && ctx.Err() == nil {
			time.Sleep(time.Millisecond)
		}
	}
	for _, id := range doomed {
		w.End(id, liveness.Exit{Known: true, Signal: syscall.SIGKILL})
		if id != s.Root {
			ended = append(ended, liveness.Member{Identity: id, Command: names[id]})
		}
	}
	return ended, nil, nil
}

// spare removes the spared processes with all their descendants. The caller holds the lock; spare releases the lock
// while it asks.
func (w *World) spare(s instance.Scope, ids []instance.Identity) []instance.Identity {
	if s.Spared == nil || len(ids) == 0 {
		return ids
	}
	w.mu.Unlock()
	spared := s.Spared(ids)
	w.mu.Lock()
	var trees []instance.Identity
	for _, id := range spared {
		trees = append(trees, w.members(instance.Scope{Root: id})...)
	}
	return slices.DeleteFunc(ids, func(id instance.Identity) bool { return slices.Contains(trees, id) })
}
