package ui

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"

	v1 "drover/api/v1"
	"drover/internal/cli/term"
	"drover/internal/process"
	"drover/internal/words"
)

// View draws the screen as lines of exactly its width in cells. The texts of hosts come without control characters.
func View(s State) string {
	if s.width < 20 || s.height < 6 {
		return ""
	}
	var body []string // without paint but in lists, which fit their lines themselves
	switch {
	case s.dialog != nil:
		body = s.fitted(s.dialogLines())
	case s.here.kind.isText():
		text := s.textLines()
		body = s.fitted(text[min(s.here.row, len(text)):min(s.here.row+s.bodyHeight(), len(text))])
	default:
		body = s.listLines()
	}
	lines := append([]string{s.header(), fit(s.summary(), s.width)}, body...)
	foot := s.height - 1 - s.logHeight()
	for len(lines) < foot {
		lines = append(lines, fit("", s.width))
	}
	lines = append(lines[:foot], s.logLines()...)
	return strings.Join(append(lines, fit(s.footer(), s.width)), "\n")
}

// fitted makes each line as wide as the screen.
func (s *State) fitted(lines []string) []string {
	all := make([]string, len(lines))
	for i, l := range lines {
		all[i] = fit(l, s.width)
	}
	return all
}

// bodyHeight is the number of rows of the list or of the text.
func (s State) bodyHeight() int {
	heads := 3
	if s.here.kind.isText() {
		heads = 2
	}
	return max(1, s.height-heads-1-s.logHeight())
}

// logHeight is the height of the log with its title; 0 without a log.
func (s State) logHeight() int {
	if s.log == nil {
		return 0
	}
	return max(3, (s.height-4)/2)
}

// fit makes a text as wide as a number of cells: it cuts it, or adds blanks.
func fit(text string, width int) string {
	text = term.Printable(text)
	if n := ansi.StringWidthWc(text); n <= width {
		return text + strings.Repeat(" ", width-n)
	}
	text = ansi.TruncateWc(text, width, "…")
	return text + strings.Repeat(" ", max(0, width-ansi.StringWidthWc(text)))
}

// paint gives a text a rendition (ECMA-48, SGR).
func (s *State) paint(text, rendition string) string {
	if !s.coloured || rendition == "" {
		return text
	}
	return "\x1b[" + rendition + "m" + text + "\x1b[0m"
}

// lost reports whether the last question had no answer.
func (s *State) lost() bool { return !s.lostAt.IsZero() }

// header says which server it is, whether it answers, and what is shown.
func (s *State) header() string {
	left := " drover "
	if s.readOnly {
		left += "[" + words.Screen.ReadOnly.In(s.lang) + "] "
	}
	left += s.server + " " + s.user
	status, colour := "● "+words.Screen.Live.In(s.lang, "age", ageOf(s.now.Sub(s.heardAt))), words.Good
	if s.here.isStill() || s.here.kind == spec {
		status = "" // nobody asks
	}
	if s.lost() {
		status = "◌ " + words.Screen.Lost.In(s.lang, "time", s.lostAt.Local().Format("15:04:05"))
		colour = words.Warn
	}
	room := s.width - ansi.StringWidthWc(status) - 2
	crumb := s.crumb()
	if ansi.StringWidthWc(left)+ansi.StringWidthWc(crumb)+3 > room {
		crumb = s.title(s.here)
		width := max(8, room-ansi.StringWidthWc(crumb)-2)
		left = strings.TrimRight(fit(left, width), " ")
	}
	gap := max(1, room-ansi.StringWidthWc(left)-ansi.StringWidthWc(crumb))
	line := fit(left+strings.Repeat(" ", gap)+crumb, max(0, room))
	return line + " " + s.paint(status, term.Rendition(colour)) + " "
}

// ageOf is how long ago the last answer came.
func ageOf(d time.Duration) string {
	return strconv.FormatFloat(max(0, d.Seconds()), 'f', 0, 64) + "s"
}

// crumb names the place, and the one before it.
func (s *State) crumb() string {
	text := s.title(s.here)
	if n := len(s.back); n > 0 {
		if before := s.title(s.back[n-1]); before != text {
			text = before + " › " + text
		}
	}
	return text
}

func (s *State) title(p place) string {
	switch p.kind {
	case processes:
		return words.Page.Processes.In(s.lang)
	case hosts:
		return words.Page.Hosts.In(s.lang)
	case tasks:
		return words.Page.Tasks.In(s.lang)
	case rollouts:
		return words.Page.Rollouts.In(s.lang)
	case events:
		return words.Page.Events.In(s.lang)
	case why:
		return p.of.process() + " " + words.Head.Why.In(s.lang)
	case spec:
		return p.of.process() + " " + words.Head.Spec.In(s.lang)
	case describe:
		return p.of.process()
	case event:
		return words.Head.Event.In(s.lang)
	case people, person:
		return strings.TrimSpace(words.Admin.People.In(s.lang) + " " + p.of.id)
	case audit:
		return words.Page.Audit.In(s.lang)
	case secret:
		return words.Screen.Once.In(s.lang)
	case help:
		return "?"
	default:
		return p.of.id
	}
}

// summary says what the list holds.
func (s *State) summary() string {
	var parts []string
	if s.here.filter != "" {
		parts = append(parts, s.here.filter)
	}
	if t := s.task; t != nil {
		parts = append(parts, s.taskLine(t))
	}
	if s.here.wrong && s.here.kind == results {
		parts = append(parts, words.State("failed").In(s.lang))
	}
	if s.here.wrong && s.here.kind == processes {
		parts = append(parts, words.Screen.Wrong.In(s.lang))
		if s.loaded {
			parts = append(parts, words.Screen.Matching.In(s.lang, "n", s.wrongOf))
		}
	}
	if s.counts != nil && !s.here.wrong {
		parts = append(parts, words.Screen.Matching.In(s.lang, "n", s.counts.Total))
		var states []string
		for _, id := range stateOrder() {
			if n := s.counts.States[id]; n > 0 {
				states = append(states, words.ClassOf(id).Mark()+" "+strconv.Itoa(n)+" "+words.State(id).In(s.lang))
			}
		}
		if n := s.counts.Stale; n > 0 {
			states = append(states, words.ClassOf(stale).Mark()+" "+strconv.Itoa(n)+" "+words.State(stale).In(s.lang))
		}
		parts = append(parts, strings.Join(states, "  "))
	}
	if n := s.marks(); n > 0 {
		parts = slices.Insert(parts, 0, words.Screen.Marked.In(s.lang, "n", n))
	}
	if first := len(s.here.pages) * Page; first > 0 || s.next != "" {
		parts = slices.Insert(parts, 0, words.Screen.Of.In(s.lang, "from", first+1, "to", first+len(s.items)))
	}
	return " " + strings.Join(parts, " · ")
}

// taskLine says what a task does, and how far it is.
func (s *State) taskLine(t *v1.Task) string {
	n := t.Counts
	line := fmt.Sprintf("%s %s · %d/%d %s", s.op(t.Op), t.Subject, n.OK+n.Failed, n.Targets,
		s.state(words.Result(t.State, n.Failed)))
	if n.Failed > 0 {
		line += " · " + s.state("failed") + " " + strconv.Itoa(n.Failed)
	}
	return line + " · " + term.Caller(t.App, t.User) + " " + s.age(&t.CreatedAt)
}

// stateOrder are the states of processes, the worst first.
func stateOrder() []string {
	return []string{
		process.StateGivenUp, process.StateUnhealthy, process.StateFlapping, process.StateBackoff,
		process.StateNotReady, process.StateUnknown, process.StateStarting, process.StateStopping,
		process.StateOperating, process.StateRunning, process.StateScheduled, process.StateFinished,
		process.StateStopped,
	}
}

// columnGap is the number of blanks between columns.
const columnGap = 2

// listLines are the heads and the rows around the selected one.
func (s *State) listLines() []string {
	height := s.bodyHeight()
	top := max(0, min(s.here.row-height/2, len(s.items)-height))
	shown := s.items[top:min(top+height, len(s.items))]
	columns, widths, cells := s.layout(shown)
	var head strings.Builder
	head.WriteByte(' ')
	for i, c := range columns {
		name := c.head.In(s.lang)
		if s.lang == words.English {
			name = strings.ToUpper(name)
		}
		if i == 0 && s.here.kind == processes {
			name = " " + name
		}
		head.WriteString(fit(fit(name, widths[i]-1), widths[i]))
	}
	lines := []string{s.paint(fit(head.String(), s.width), "1")}
	for n := range shown {
		lines = append(lines, s.rowLine(columns, widths, cells[n], shown[n], top+n == s.here.row))
	}
	if len(shown) == 0 {
		lines = append(lines, s.fitted([]string{"", "  " + s.emptiness()})...)
	}
	return lines
}

// emptiness says why a list has no rows.
func (s *State) emptiness() string {
	switch {
	case s.refused != "":
		return s.refused
	case !s.loaded:
		return words.Screen.Asking.In(s.lang)
	case s.here.wrong && s.here.filter == "" && s.here.kind == processes:
		return words.Screen.NoCause.In(s.lang)
	case s.here.filter != "":
		return words.Page.NothingMatches.In(s.lang)
	}
	return words.Page.Nothing.In(s.lang)
}

func (s *State) rowLine(columns []column, widths []int, cells []string, item any, selected bool) string {
	var b strings.Builder
	b.WriteByte(' ')
	if selected {
		b.Reset()
		b.WriteString("▸")
	}
	left := s.width - 1
	for i := range columns {
		left -= widths[i]
		text := fit(fit(cells[i], widths[i]-1), widths[i])
		if columns[i].state != nil && !selected && !s.lost() {
			text = s.paint(text, term.Rendition(words.ClassOf(columns[i].state(item))))
		}
		b.WriteString(text)
	}
	b.WriteString(strings.Repeat(" ", max(0, left)))
	if selected {
		return s.paint(b.String(), "7")
	}
	return b.String()
}

// layout chooses the columns that have room, and their widths with the gap after each.
func (s *State) layout(shown []any) (columns []column, widths []int, cells [][]string) {
	columns = columnsOf(s.here.kind)
	cells = make([][]string, len(shown))
	for n, item := range shown {
		for _, c := range columns {
			cells[n] = append(cells[n], c.cell(s, item))
		}
	}
	for i, c := range columns {
		width := ansi.StringWidthWc(c.head.In(s.lang))
		for n := range shown {
			width = max(width, ansi.StringWidthWc(term.Printable(cells[n][i])))
		}
		if i+1 < len(columns) {
			width = min(width, widest)
		}
		widths = append(widths, width+columnGap)
	}
	for len(columns) > 1 {
		over := 1 - s.width
		for _, w := range widths {
			over += w
		}
		if last := len(widths) - 1; over <= widths[last]-min(widths[last], narrowest) {
			widths[last] -= over // what is left of the line
			break
		}
		out := 0
		for i, c := range columns {
			if c.drop > columns[out].drop {
				out = i
			}
		}
		if columns[out].drop == 0 {
			return columns, s.squeezed(widths), cells
		}
		columns = slices.Delete(columns, out, out+1)
		widths = slices.Delete(widths, out, out+1)
		for n := range cells {
			cells[n] = slices.Delete(cells[n], out, out+1)
		}
	}
	return columns, widths, cells
}

// The widest column but the last one, and the least width of the last one, in cells.
const (
	widest    = 40
	narrowest = 24
)

// squeezed gives columns that must all be shown an equal share of a line that is too narrow. Columns that need less
// leave the rest to the others.
func (s *State) squeezed(widths []int) []int {
	order := make([]int, len(widths))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(widths[a], widths[b]) })
	left := s.width - 1
	for n, i := range order {
		widths[i] = min(widths[i], left/(len(widths)-n))
		left -= widths[i]
	}
	return widths
}

// textLines are the lines of a text, broken at the width of the screen.
func (s State) textLines() (lines []string) {
	if !s.here.kind.isText() {
		return nil
	}
	if s.refused != "" || !s.loaded {
		return []string{"", "  " + s.emptiness()}
	}
	for _, line := range s.text() {
		line = term.Printable(line)
		if s.width > 4 && ansi.StringWidthWc(line) > s.width-2 {
			lines = append(lines, wrapped(line, s.width-2)...)
			continue
		}
		lines = append(lines, line)
	}
	for i := range lines {
		lines[i] = " " + lines[i]
	}
	return lines
}

// wrapped breaks a line between words. What follows stands below the value of a field.
func wrapped(line string, width int) (lines []string) {
	name := ""
	if strings.HasPrefix(line, "  ") && width > 2*nameWidth {
		name = ansi.TruncateWc(line, nameWidth+1, "")
	}
	below := strings.Repeat(" ", ansi.StringWidthWc(name))
	for i, part := range strings.Split(ansi.WrapWc(line[len(name):], width-len(below), ""), "\n") {
		if i > 0 {
			name = below
		}
		lines = append(lines, name+part)
	}
	return lines
}

// text are the lines of a text as long as they are.
func (s *State) text() []string {
	switch s.here.kind {
	case help:
		return strings.Split(words.Screen.Help.In(s.lang), "\n")
	case event:
		return s.eventText(s.here.event)
	case secret:
		return s.here.text
	case spec:
		return s.lines
	default:
	}
	var all []v1.Process
	var used []string
	for _, item := range s.items {
		switch v := item.(type) {
		case v1.Process:
			all = append(all, v)
		case v1.UsageHistory:
			used = s.usageText(&v)
		case v1.Why:
			return s.whyText(v)
		case v1.Rollout:
			return s.rolloutText(v)
		case v1.User:
			return s.personText(v)
		}
	}
	if len(all) == 0 {
		return []string{words.Page.Nothing.In(s.lang)}
	}
	return append(s.describeText(all), used...)
}

// dialogLines are the question, what it is about, and the two buttons.
func (s *State) dialogLines() []string {
	d := s.dialog
	op := wordOf(d.op).In(s.lang)
	lines := append([]string{""}, s.dialogSubject(d, op)...)
	if d.spreads() {
		how := words.Act.AtOnce.In(s.lang, "hosts", d.hosts())
		if d.batches != "" {
			how = words.Act.InBatches.In(s.lang) + "  " + d.batches
		}
		lines = append(lines, "", "  "+how)
	}
	if d.mustType() && !d.blocked() {
		lines = append(lines, "", "  "+words.Screen.TypeCount.In(s.lang, "n", d.count())+" "+d.typed+"_")
	}
	cancel, confirm := "[ "+words.Act.Cancel.In(s.lang)+" ]", "  "+op+"  "
	if d.confirm {
		cancel, confirm = "  "+words.Act.Cancel.In(s.lang)+"  ", "[ "+op+" ]"
	}
	if d.blocked() {
		confirm = ""
	}
	lines = append(lines, "", "  "+cancel+"   "+confirm)
	if command, more, _ := strings.Cut(d.command(s.suffix), "\n"); command != "" {
		if more != "" {
			command += " …"
		}
		lines = append(lines, "", "  "+words.Page.SameByCommand.In(s.lang)+" "+command)
	}
	return lines
}

// dialogSubject are the question and what it is about.
func (s *State) dialogSubject(d *dialog, op string) []string {
	var list []string
	var first v1.SelectedProcess
	n, hostCount, away := d.count(), d.hosts(), 0
	switch {
	case d.task != nil:
		return []string{"  " + words.Screen.AskCancel.In(s.lang, "task", d.task.ID), "", "    " + s.taskLine(d.task)}
	case d.rollout != nil:
		return s.rolloutQuestion(d, op)
	case d.held != nil:
		away = d.held.Away
		list = selectedLines(d.held.Sample)
		if len(d.held.Sample) > 0 {
			first = d.held.Sample[0]
		}
	default:
		for _, p := range d.targets {
			first = v1.SelectedProcess{Namespace: p.Namespace, Name: p.Name, Host: p.Host.ID}
			if !p.Host.Online {
				away++
			}
			list = append(list, "    "+p.Namespace+"/"+p.Name+"  "+p.Host.ID+"  "+s.stateOf(&p))
		}
	}
	lines := []string{"  " + s.question(op, n, hostCount, first), ""}
	room := max(1, s.height-s.logHeight()-16)
	if d.held != nil && d.held.DeniedCount > 0 {
		lines = append(lines, "  "+words.Fleet.Denied.In(s.lang, "n", d.held.DeniedCount))
		list, n = selectedLines(d.held.Denied), d.held.DeniedCount
	}
	lines = append(lines, list[:min(len(list), room)]...)
	if more := n - min(len(list), room); more > 0 {
		lines = append(lines, "    "+words.Screen.And.In(s.lang, "n", more))
	}
	if away > 0 {
		lines = append(lines, "", "  "+words.Act.Away.In(s.lang, "n", away))
	}
	return lines
}

// question asks for an operation on n processes, and names what there is one of.
func (s *State) question(op string, n, hosts int, first v1.SelectedProcess) string {
	switch {
	case n == 1 && first.Name != "":
		return words.Act.AskOne.In(s.lang, "op", op, "process", first.Namespace+"/"+first.Name, "host", first.Host)
	case hosts == 1:
		return words.Act.AskHost.In(s.lang, "op", op, "n", n, "host", first.Host)
	}
	return words.Act.Ask.In(s.lang, "op", op, "n", n, "hosts", hosts)
}

func selectedLines(all []v1.SelectedProcess) []string {
	lines := make([]string, 0, len(all))
	for _, p := range all {
		lines = append(lines, "    "+p.Namespace+"/"+p.Name+"  "+p.Host)
	}
	return lines
}

// noteLines are a paragraph of the dialog.
func (s *State) noteLines(text string) []string {
	lines := []string{""}
	for l := range strings.SplitSeq(ansi.WrapWc(text, max(10, s.width-6), ""), "\n") {
		lines = append(lines, "    "+l)
	}
	return lines
}

// rolloutQuestion says what is done with a rollout, and how far the rollout is.
func (s *State) rolloutQuestion(d *dialog, op string) []string {
	r, n := d.rollout, d.rollout.Counts
	lines := []string{
		"  " + words.Screen.AskRollout.In(s.lang, "op", op, "rollout", r.ID), "",
		"    " + s.op(r.Op) + "  " + strings.Join(r.Processes, " ") + "  " + s.state(words.Result(r.State, r.Counts.Failed)),
		"    " + words.Screen.RolloutHosts.In(s.lang, "done", n.OK+n.Failed+n.Skipped, "hosts", n.Hosts,
			"failed", n.Failed, "waiting", n.Waiting),
	}
	if r.Reason != "" {
		lines = append(lines, "    "+s.said(r.Reason))
	}
	switch d.op {
	case "abort":
		lines = append(lines, s.noteLines(words.Act.AbortNote.In(s.lang, "n", n.Hosts-n.Waiting, "hosts", n.Hosts))...)
	case "undo":
		lines = append(lines, s.noteLines(words.Act.UndoNote.In(s.lang))...)
	}
	return lines
}
