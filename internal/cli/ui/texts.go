package ui

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "drover/api/v1"
	"drover/internal/cli/remote"
	"drover/internal/cli/term"
	causes "drover/internal/why"
	"drover/internal/words"
)

// field is a line of a text: its name in a column, and its value.
func field(name, value string) string {
	if value == "" {
		return ""
	}
	return fit("  "+name, nameWidth) + " " + value
}

const nameWidth = 16

// without leaves out empty lines.
func without(lines ...string) []string {
	return slices.DeleteFunc(lines, func(l string) bool { return l == "" })
}

// idOf is the id of a state behind its word; empty if the word is the id.
func (s *State) idOf(id string) string {
	if words.State(id).In(s.lang) == id {
		return ""
	}
	return "  " + id
}

// describeText are the lines about a process on its hosts.
func (s *State) describeText(all []v1.Process) (lines []string) {
	h := func(t words.Text) string { return t.In(s.lang) }
	for _, p := range all {
		lines = append(lines, without(
			p.Namespace+"/"+p.Name,
			field(h(words.Head.Host), fmt.Sprintf("%s (%d:%s)", p.Host.ID, p.Host.Cloud, p.Host.IP)),
			field(h(words.Head.State), s.stateOf(&p)+s.idOf(p.State)), field(h(words.Head.Since), s.age(since(p))),
			field(h(words.Head.Hosted), s.said(term.YesNo(p.Hosted))), field(h(words.Head.Message), s.said(p.Message)),
		)...)
		if i := p.Instance; i != nil {
			used := remote.Used(&p)
			lines = append(lines, without(
				field(h(words.Head.PID), strconv.Itoa(i.PID)), field(h(words.Head.Process), i.Cmdline),
				field(h(words.Head.Started), term.Stamp(i.StartedAt)),
				field(h(words.Head.CPUOfHost), term.Percent(used.CPU)),
				field(h(words.Head.Memory), term.Size(used.RSS)), field(h(words.Head.Version), i.Version),
				field(h(words.Head.Health), i.Health))...)
		}
		if p.LastExit != nil {
			lines = append(lines, field(h(words.Head.LastExit), s.exitText(*p.LastExit)))
		}
		lines = append(lines, field(h(words.Head.Restarts), strconv.Itoa(p.Restarts)))
		if p.Cause != nil {
			lines = append(lines, s.causeText(p.Cause, h(words.Head.Cause))...)
		}
		for _, c := range p.Further {
			lines = append(lines, s.causeText(&c, h(words.Screen.Also))...)
		}
		if p.Revision > 0 {
			lines = append(lines, field(h(words.Head.Spec), strconv.FormatInt(p.Revision, 10)))
		}
		lines = append(lines, field(h(words.Head.LastSeen), s.age(p.Host.LastSeen)), "")
	}
	return lines
}

func (s *State) exitText(e v1.Exit) string {
	switch {
	case !e.Known:
		return "?"
	case e.Signal != 0:
		return words.Head.Signal.In(s.lang, "n", e.Signal)
	}
	return words.Head.ExitCode.In(s.lang, "n", e.Code)
}

func (s *State) causeText(c *v1.Cause, name string) (lines []string) {
	text := s.cause(c) + " [" + c.ID + "]"
	if c.Since != nil {
		text += ", " + words.Span(s.age(c.Since), s.lang)
	}
	lines = append(lines, field(name, text))
	for _, e := range c.Evidence {
		text, _ := words.Sentence(strings.TrimRight(e, "\n"), s.lang) // times stay as a program has written them
		for l := range strings.Lines(text) {
			lines = append(lines, field("", strings.TrimRight(l, "\n")))
		}
	}
	return lines
}

// whyText are the lines of findings, each with what to do.
func (s *State) whyText(answer v1.Why) (lines []string) {
	for _, f := range answer.Findings {
		severity := s.state(f.Severity)
		if !f.Wrong {
			severity = words.Screen.NoCause.In(s.lang)
		}
		lines = append(lines, f.Namespace+"/"+f.Name+"  "+f.Host.ID, field(words.Head.Severity.In(s.lang), severity),
			field(words.Head.State.In(s.lang), s.said(f.Impact)))
		lines = append(lines, s.causeText(&f.Cause, words.Head.Why.In(s.lang))...)
		for _, c := range f.Further {
			lines = append(lines, s.causeText(&c, words.Screen.Also.In(s.lang))...)
		}
		for _, c := range answer.Causes {
			if c.ID == f.Cause.ID {
				lines = append(lines, field(words.Head.Remedy.In(s.lang), s.remedy(c, f.Cause.Text)))
			}
		}
		lines = append(lines, "")
	}
	if len(lines) == 0 {
		lines = []string{words.Screen.NoCause.In(s.lang)}
	}
	return lines
}

// remedy says what to do about a cause with that sentence.
func (s *State) remedy(c v1.CauseCount, sentence string) string {
	return strings.ReplaceAll(words.Remedy(c.ID, sentence, c.Remedy, s.lang), "`", "'")
}

// kindOf is the word of a kind of event, and the id by which a person filters.
func (s *State) kindOf(e v1.Event) string {
	text := words.Kind(e.Kind).In(s.lang)
	if text == e.Kind {
		return text
	}
	return text + " [" + e.Kind + "]"
}

func (s *State) eventText(e v1.Event) []string {
	lines := without(
		e.Namespace+"/"+e.Name+"  "+e.Host.ID,
		field(words.Head.At.In(s.lang), term.Stamp(&e.At)), field(words.Head.Event.In(s.lang), s.kindOf(e)),
		field(words.Head.State.In(s.lang), strings.TrimPrefix(
			words.State(e.From).In(s.lang)+" → "+words.State(words.EventState(e.Kind, e.To)).In(s.lang), " → ")),
		field(words.Head.User.In(s.lang), s.actor(e.Actor)), field(words.Head.Task.In(s.lang), e.Actor.Operation),
	)
	if e.PID > 0 {
		lines = append(lines, field(words.Head.PID.In(s.lang), strconv.Itoa(e.PID)))
	}
	if e.Exit != nil {
		lines = append(lines, field(words.Head.LastExit.In(s.lang), s.exitText(*e.Exit)))
	}
	if e.RunSeconds > 0 {
		lines = append(lines, field(words.Head.Took.In(s.lang), causes.RunTime(seconds(e.RunSeconds))))
	}
	if e.Cause != nil {
		lines = append(lines, s.causeText(e.Cause, words.Head.Cause.In(s.lang))...)
	}
	if len(e.Fields) > 0 {
		lines = append(lines, field(words.Head.Spec.In(s.lang), strings.Join(e.Fields, ", ")))
	}
	if e.Output != "" {
		lines = append(lines, "", words.Head.LastWords.In(s.lang))
		lines = append(lines, strings.Split(strings.TrimRight(e.Output, "\n"), "\n")...)
	}
	return lines
}

// rolloutHosts is the largest number of hosts of a rollout in its text.
const rolloutHosts = 500

func (s *State) rolloutText(r v1.Rollout) []string {
	n := r.Counts
	lines := without(
		s.op(r.Op)+"  "+r.ID+"  "+s.state(words.Result(r.State, r.Counts.Failed)),
		field(words.Head.Subject.In(s.lang), strings.Join(r.Processes, " ")),
		field(words.Head.Reason.In(s.lang), s.said(r.Reason)),
		field(words.Head.User.In(s.lang), term.Caller(r.App, r.User)),
		field(words.Head.Created.In(s.lang), term.Stamp(&r.CreatedAt)),
		field(words.Head.Batch.In(s.lang), strconv.Itoa(r.Batch+1)),
		field(words.Head.Progress.In(s.lang), fmt.Sprintf("%d/%d", n.OK+n.Failed+n.Skipped, n.Hosts)),
		field(words.Head.Failures.In(s.lang), strconv.Itoa(n.Failed)),
	)
	if n.Skipped > 0 {
		lines = append(lines, field(words.State("skipped").In(s.lang), strconv.Itoa(n.Skipped)))
	}
	for _, f := range r.Failures {
		lines = append(lines, field("", s.state(f.Cause)+"  "+strings.Join(f.Hosts, " ")),
			field("", s.said(f.Message)))
	}
	lines = append(lines, "")
	for _, h := range r.Hosts[:min(len(r.Hosts), rolloutHosts)] {
		lines = append(lines, fmt.Sprintf("  %3d  %s  %s  %s", h.Batch+1, h.Host, s.state(h.State), s.said(h.Message)))
	}
	if more := len(r.Hosts) - rolloutHosts; more > 0 {
		lines = append(lines, "  "+words.Screen.And.In(s.lang, "n", more))
	}
	return lines
}

func labelsOf(labels map[string]string) string {
	var parts []string
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		parts = append(parts, key+"="+labels[key])
	}
	return strings.Join(parts, ",")
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
