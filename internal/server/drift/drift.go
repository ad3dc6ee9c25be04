// Package drift compares a file, the spec of a host and the running process, and names for each difference who made it
// and which command removes it. It does no I/O and has no clock.
package drift

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "drover/api/v1"
	"drover/internal/process"
	"drover/internal/processfile"
	"drover/internal/server/plan"
	"drover/internal/server/store"
)

// hidden stands for the value of an environment variable.
const hidden = "***"

// Case is what is known of a process on a host.
type Case struct {
	Process process.ID
	Host    string
	// Selected is the selection in force that the host matches; nil if there is none, or if a rollout that is under way
	// decides about the process.
	Selected *store.Selection
	// Unwanted says that a selection of the process is in force, and the host does not match it.
	Unwanted bool
	// Placed is the spec by the latest revision, and Filed by the latest file; nil if there is none. They are the same
	// if a file was last.
	Placed, Filed *store.Placement
	// RemovedBy is the revision of a file that has removed the process; nil if there is none, or if the host does not
	// have the process.
	RemovedBy *store.Revision
	// Have is what the host has reported; nil if it does not have the process.
	Have *store.Observed
	// Started is the spec with which the running process was started; nil if it is the present one or unknown.
	Started *process.Spec
	// Unhosted is how drover ceased to watch the process; nil if that is not known.
	Unhosted *process.Event
	// Live is what the host has found in the running process.
	Live []process.LiveField
}

// Of returns the differences; none if no file has the process.
func Of(c Case) (all []v1.Difference) {
	file := c.file()
	switch {
	case c.RemovedBy != nil && c.Selected == nil && c.Placed == nil && c.Have != nil:
		return c.notRemoved()
	case file == nil:
		return nil
	case c.Have == nil && c.Unwanted:
		return nil
	case c.Have == nil:
		return c.lacking()
	}
	all = append(all, c.changed(file)...)
	if !file.OnDemand {
		all = append(all, c.person()...)
	}
	all = append(all, c.running(file)...)
	for _, f := range c.Have.Status.Config {
		since := time.UnixMilli(f.Since).UTC()
		why := f.Path + " differs from its checksum"
		if f.Problem != "" {
			why = "drover could not look: " + f.Problem
		}
		all = append(all, c.item(v1.Difference{
			Kind: v1.DriftConfig, Field: "config_files." + f.Path, Want: f.Want, Have: text(f.Have), At: &since, Text: why,
		}))
	}
	return all
}

// file returns the spec that the file in force has for the host; nil if it has none. A selection in force counts more
// than what files have placed on the host: a rollout may have left the host out, or may have ended half-way.
func (c *Case) file() *process.Spec {
	switch {
	case c.Selected != nil:
		return c.Selected.Spec
	case c.Filed != nil:
		return c.Filed.Spec
	}
	return nil
}

// item completes a difference.
func (c *Case) item(d v1.Difference) v1.Difference {
	d.Namespace, d.Name, d.Host = c.Process.Namespace, c.Process.Name, c.Host
	if strings.HasPrefix(d.Field, "environment.") && d.Kind != v1.DriftProcess {
		for _, value := range []*any{&d.Want, &d.Have} {
			if *value != nil {
				*value = hidden
			}
		}
	}
	return d
}

// fields returns a difference for each field in which the second spec differs from the first.
func (c *Case) fields(want, have *process.Spec, d v1.Difference) (all []v1.Difference) {
	for _, f := range plan.Fields(want, have) {
		one := d
		one.Field, one.Want, one.Have = f.Path, f.From, f.To
		all = append(all, c.item(one))
	}
	return all
}

// reapply is the command that gives this host alone what the file in force says of the process. An apply would concern
// the other hosts of the process, too, and end its selection.
func (c *Case) reapply() string {
	command := c.on("register") + " --selection"
	if c.Selected == nil {
		command = fmt.Sprintf("%s --revision %d", c.on("register"), c.Filed.Revision)
	}
	switch {
	case c.Have != nil:
	case c.file().OnDemand:
		return command
	default:
		return command + " && " + c.on("start") + " --take-over" // what drover does not know may run
	}
	return command + " --replace"
}

// on is a command for the process on this host.
func (c *Case) on(verb string) string {
	return fmt.Sprintf("drover %s %s --hosts %s", verb, quoted(c.Process.String()), quoted(c.Host))
}

// quoted returns a word of a shell's command line.
func quoted(word string) string {
	if !strings.ContainsFunc(word, func(r rune) bool {
		return !strings.ContainsRune("@%+=:,./-_", r) && (r > 'z' || r < '0' || r > '9' && r < 'A' || r > 'Z' && r < 'a')
	}) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// of returns a difference that somebody made by a revision.
func of(kind string, p *store.Placement) v1.Difference {
	return v1.Difference{Kind: kind, App: p.App, User: p.User, Through: p.Through, At: timeOrNil(p.At)}
}

// changed returns how the spec on the host differs from the file.
func (c *Case) changed(file *process.Spec) []v1.Difference {
	if c.Have.Spec == nil || c.Have.Spec.Same(file) {
		return nil
	}
	var d v1.Difference
	switch p := c.Placed; {
	case p == nil || p.Spec.Same(file) || !p.Spec.Same(c.Have.Spec):
		d = c.notApplied()
	case !store.ByFile(p.Through):
		d = of(v1.DriftChanged, p)
		d.Text = fmt.Sprintf("revision %d has changed it since the file", p.Revision)
	case p.Through == v1.ThroughUndo:
		d = of(v1.DriftChanged, p)
		d.Text = fmt.Sprintf("revision %d, an undo, has brought back a change that no file made", p.Revision)
	case c.Selected != nil && p.At.Before(c.Selected.At):
		d = c.notApplied()
		d.Text = fmt.Sprintf("the host has revision %d, which the file in force has replaced", p.Revision)
	default:
		d = of(v1.DriftChanged, p)
		d.Text = fmt.Sprintf("revision %d has changed it, but its rollout did not end, so the file before it is in force",
			p.Revision)
	}
	d.Mend = c.reapply()
	return c.fields(file, c.Have.Spec, d)
}

// notApplied returns that the host did not get the file in force.
func (c *Case) notApplied() (d v1.Difference) {
	switch {
	case c.Placed != nil && c.Placed.Spec.Same(c.file()):
		d = of(v1.DriftMissed, c.Placed)
		d.Text = fmt.Sprintf("the host does not have revision %d", c.Placed.Revision)
	case c.Selected != nil:
		s := c.Selected
		d = v1.Difference{
			Kind: v1.DriftMissed, App: s.App, User: s.User, Through: v1.ThroughSelection, At: timeOrNil(s.At),
			Text: "the host does not have the spec of its selection",
		}
	default:
		d = of(v1.DriftMissed, c.Filed)
		d.Text = fmt.Sprintf("the host does not have revision %d", c.Filed.Revision)
	}
	return d
}

// lacking returns that the host does not have the process.
func (c *Case) lacking() []v1.Difference {
	var d v1.Difference
	switch {
	case c.Placed != nil:
		d = c.notApplied()
	case c.Filed != nil && c.Filed.Ended != nil && !store.ByFile(c.Filed.Ended.Through):
		e := c.Filed.Ended
		d = v1.Difference{
			Kind: v1.DriftPerson, App: e.App, User: e.User, Through: e.Through, At: timeOrNil(e.At),
			Text: "somebody has removed the process on this host",
		}
	case c.Selected != nil:
		d = c.notApplied()
		d.Text = "the host matches the selection, and lacks the process; drover brings it within a minute, if the person " +
			"who applied the file may still start it there"
	default:
		return nil
	}
	d.Mend = c.reapply()
	return []v1.Difference{c.item(d)}
}

// notRemoved returns that the host still has the process.
func (c *Case) notRemoved() []v1.Difference {
	e := c.RemovedBy
	return []v1.Difference{c.item(v1.Difference{
		Kind: v1.DriftMissed, App: e.App, User: e.User, Through: e.Through, At: timeOrNil(e.At),
		Text: fmt.Sprintf("revision %d has removed the process, and the host still has it", e.Number),
		Mend: c.on("stop") + " && " + c.on("unregister"),
	})}
}

// Unwatched reports whether drover has ceased to watch a process that should run.
func (c *Case) Unwatched() bool {
	return c.Have != nil && !c.Have.Status.Hosted && c.Have.Status.Want != process.WantStopped
}

// person returns what a person has done with the process on this host.
func (c *Case) person() []v1.Difference {
	d := v1.Difference{Kind: v1.DriftPerson}
	switch s := c.Have.Status; {
	case slices.Contains([]string{process.StateFinished, process.StateOperating, process.StateStopping}, s.State):
		return nil
	case s.NeverStarted(): // what drover does not know may run
		d.Text, d.Mend = cmp.Or(s.Cause.Text, "registered and never started"), c.on("start")+" --take-over"
	case s.Want == process.WantStopped:
		d.Text, d.Mend = cmp.Or(s.Cause.Text, "somebody has stopped the process"), c.on("start")
	case c.Unwatched():
		d.Text, d.Mend = cmp.Or(s.Cause.Text, "drover does not watch the process"), c.on("host")
	default:
		return nil
	}
	since := c.Have.Status.Cause.Since
	if e := c.Unhosted; e != nil {
		d.App, d.User, since = e.Actor.App, e.Actor.User, e.At
		if d.App+d.User != "" {
			d.Text = "somebody has unhosted the process"
		}
	}
	if since > 0 {
		d.At = timeOrNil(time.UnixMilli(since).UTC())
	}
	return []v1.Difference{c.item(d)}
}

// running returns how the running process differs from the file.
func (c *Case) running(file *process.Spec) (all []v1.Difference) {
	d := v1.Difference{Kind: v1.DriftProcess, Mend: c.on("restart")}
	wanted := map[string]any{} // by the file, of what differs in the spec on the host
	if c.Have.Spec != nil && !c.Have.Spec.Same(file) {
		d.Mend = c.reapply() + " && " + d.Mend
		for _, f := range plan.Fields(file, c.Have.Spec) {
			wanted[f.Path] = f.From
			if strings.HasPrefix(f.Path, "environment.") { // as a host says it
				if wanted[f.Path] = "set"; f.From == nil {
					wanted[f.Path] = "not set"
				}
			}
		}
	}
	if slices.ContainsFunc(c.Live, executableMissing) {
		d.Mend = "" // a restart would end the process, and start none
	}
	earlier := d
	if ran := c.ranWith(); ran != 0 {
		earlier.Text = fmt.Sprintf("it runs with revision %d, stored is %d", ran, c.Have.Spec.Revision)
	}
	if c.Started != nil && earlier.Text != "" {
		d.Text = earlier.Text
		for _, one := range c.fields(file, c.Started, d) {
			if waits(one.Field) {
				if strings.HasPrefix(one.Field, "environment.") {
					one.Want, one.Have = masked(one.Want), masked(one.Have)
				}
				all = append(all, one)
			}
		}
	}
	d.Text = "the running process differs from its spec"
	for _, f := range c.Live {
		if slices.ContainsFunc(all, func(have v1.Difference) bool { return have.Field == f.Path }) {
			continue
		}
		one := d
		one.Field, one.Want, one.Have = f.Path, text(f.Want), text(f.Have)
		switch {
		case f.Problem != "":
			one.Text = f.Problem
		case f.Path == executable && strings.HasPrefix(f.Have, "/"):
			one.Text = "it runs an old release: its path leads to a new file now"
		}
		if want, differs := wanted[f.Path]; differs {
			if one.Want = want; want == one.Have || fmt.Sprint(want) == f.Have {
				continue
			}
		}
		all = append(all, c.item(one))
	}
	if len(all) == 0 && c.Started == nil && earlier.Text != "" {
		earlier.Text += "; the spec of the former is not in the database"
		all = append(all, c.item(earlier))
	}
	return all
}

// ranWith is the revision that the running process was started with, if the host has another one now; else 0.
func (c *Case) ranWith() int64 {
	s := c.Have.Status
	if !s.Running() || c.Have.Spec == nil || c.Have.Spec.Revision == 0 || s.Instance.Revision == c.Have.Spec.Revision {
		return 0
	}
	return s.Instance.Revision
}

// executable is the field of a running process with its executable.
const executable = "executable"

// executableMissing reports whether a field says that the executable is not there.
func executableMissing(f process.LiveField) bool { return f.Path == executable && f.Problem != "" }

// waits reports whether a changed field takes effect at the next start.
func waits(path string) bool {
	for _, f := range processfile.Fields() {
		if f.Path == path || strings.HasPrefix(path, f.Path+".") && f.Path == "environment" {
			return f.Class == processfile.AtRestart
		}
	}
	return false
}

func masked(value any) any {
	if value == nil {
		return nil
	}
	return hidden
}

func text(value string) any {
	if value == "" {
		return nil
	}
	return value
}

// timeOrNil returns a time, nil for the zero time.
func timeOrNil(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}
