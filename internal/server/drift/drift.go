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
	// Placed is the spec by the latest revision, and Filed by the latest file; nil if there is none. They are the same
	// if a file was last.
	Placed, Filed *store.Placement
	// Selected is the selection in force that the host matches; nil if there is none.
	Selected *store.Selection
	// Have is what the host has reported; nil if it does not have the process.
	Have *store.Observed
	// Started is the spec with which the running process was started; nil if it is the present one or unknown.
	Started *process.Spec
	// Live is what the host has found in the running process.
	Live []process.LiveField
}

// Of returns the differences; none if no file has the process.
func Of(c Case) (all []v1.Difference) {
	if c.Filed == nil {
		return c.left()
	}
	all = append(all, c.changed()...)
	all = append(all, c.missed()...)
	all = append(all, c.person()...)
	if c.Have == nil {
		return all
	}
	all = append(all, c.running()...)
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

// reapply is the command that gives this host alone what a revision says of the process. An apply would concern the
// other hosts of the process, too, and end its selection.
func (c *Case) reapply(revision int64) string {
	command := fmt.Sprintf("%s --revision %d", c.on("register"), revision)
	if c.Have == nil {
		return command + " && " + c.on("start")
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

// changed returns how a caller other than an apply has changed the spec.
func (c *Case) changed() []v1.Difference {
	if c.Placed == nil || c.Placed.Revision <= c.Filed.Revision {
		return nil
	}
	return c.fields(c.Filed.Spec, c.Placed.Spec, v1.Difference{
		Kind: v1.DriftChanged, App: c.Placed.App, User: c.Placed.User, Through: c.Placed.Through,
		At:   moment(c.Placed.At),
		Text: fmt.Sprintf("revision %d has changed it since the file", c.Placed.Revision),
		Mend: c.reapply(c.Filed.Revision),
	})
}

// missed returns how the host differs from the latest revision.
func (c *Case) missed() []v1.Difference {
	if c.Placed == nil {
		return nil
	}
	d := v1.Difference{
		Kind: v1.DriftMissed, App: c.Placed.App, User: c.Placed.User, Through: c.Placed.Through,
		At:   moment(c.Placed.At),
		Text: fmt.Sprintf("the host does not have revision %d", c.Placed.Revision), Mend: c.reapply(c.Placed.Revision),
	}
	switch {
	case c.Have == nil:
		return []v1.Difference{c.item(d)}
	case c.Have.Spec == nil || c.Have.Spec.Same(c.Placed.Spec):
		return nil
	}
	return c.fields(c.Placed.Spec, c.Have.Spec, d)
}

// left returns that a host matches a selection, and nothing was ever placed there.
func (c *Case) left() []v1.Difference {
	if c.Selected == nil || c.Placed != nil || c.Have != nil {
		return nil
	}
	s := c.Selected
	return []v1.Difference{c.item(v1.Difference{
		Kind: v1.DriftMissed, App: s.App, User: s.User, Through: v1.ThroughSelection, At: moment(s.At),
		Text: "the host matches the selection, and lacks the process; drover brings it within a minute, if the person who " +
			"applied the file may still start it there",
		Mend: fmt.Sprintf("drover get %s | drover apply -f -", quoted(c.Process.String())),
	})}
}

// person returns what a person has done with the process on this host.
func (c *Case) person() []v1.Difference {
	d := v1.Difference{Kind: v1.DriftPerson}
	switch {
	case c.Placed == nil && c.Have == nil && c.Filed.Ended != nil && !slices.Contains(
		[]string{v1.ThroughApply, v1.ThroughEdit, v1.ThroughSelection}, c.Filed.Ended.Through):
		e := c.Filed.Ended
		d.App, d.User, d.Through, d.At = e.App, e.User, e.Through, moment(e.At)
		d.Text, d.Mend = "somebody has removed the process on this host", c.reapply(c.Filed.Revision)
	case c.Have == nil || c.Have.Status.State == process.StateFinished || c.Have.Status.State == process.StateOperating:
		return nil
	case c.Have.Status.Want == process.WantStopped:
		d.Text, d.Mend = cmp.Or(c.Have.Status.Cause.Text, "somebody has stopped the process"), c.on("start")
	case !c.Have.Status.Hosted:
		d.Text, d.Mend = cmp.Or(c.Have.Status.Cause.Text, "drover does not watch the process"), c.on("host")
	default:
		return nil
	}
	if c.Have != nil && c.Have.Status.Cause.Since > 0 {
		d.At = moment(time.UnixMilli(c.Have.Status.Cause.Since).UTC())
	}
	return []v1.Difference{c.item(d)}
}

// running returns how the running process differs from its spec.
func (c *Case) running() (all []v1.Difference) {
	d := v1.Difference{Kind: v1.DriftProcess, Mend: c.on("restart")}
	if c.Started != nil && c.Have.Status.Running() {
		d.Text = fmt.Sprintf("it runs with revision %d, stored is %d", c.Have.Status.Instance.Revision,
			c.Have.Spec.Revision)
		for _, one := range c.fields(c.Have.Spec, c.Started, d) {
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
		if f.Problem != "" {
			one.Text = f.Problem
		}
		all = append(all, c.item(one))
	}
	return all
}

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

// moment returns a time, nil for the zero time.
func moment(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}
