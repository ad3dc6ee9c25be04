package ui

import (
	"slices"
	"strconv"
	"strings"

	"github.com/charmbracelet/x/ansi"

	v1 "drover/api/v1"
	"drover/internal/cli/term"
	"drover/internal/words"
)

// logPane is the log below a list: that of one process, or of several side by side.
type logPane struct {
	number int
	of     []subject
	run    int
	follow bool
	ended  bool
	// lines are the last lines; before counts the earlier ones that the screen keeps no more.
	lines  []LogLine
	before int
	// focus tells that keys move the log and not the list.
	focus bool
	// While held, the line with the number first stays at the top, whatever comes. hit is the number of the line that
	// was found last; -1 if there is none.
	held       bool
	first, hit int
	find       string
}

// logKept is the largest number of lines of a log that the screen keeps.
const logKept = 2000

// MaxLogs is the largest number of logs side by side.
const MaxLogs = 20

// toggleLog opens the log of the selected process below the list, shows that of another one, or closes it.
func (s State) toggleLog() (State, []Do) {
	of, ok := s.process()
	switch {
	case !ok && s.log == nil:
		s.note = words.Screen.NotHere.In(s.lang)
		return s, nil
	case !ok || s.log != nil && (len(s.log.of) > 1 || s.log.of[0] == of):
		s.log = nil
		return s.within(), []Do{CloseLog{}}
	}
	return s.readLog(logPane{of: []subject{of}})
}

// logsOfMarked opens the logs of all marked processes side by side.
func (s State) logsOfMarked() (State, []Do) {
	var of []subject
	for _, item := range s.items {
		if p, ok := item.(v1.Process); ok && s.isMarked(p) {
			of = append(of, subjectOf(p))
		}
	}
	if !s.allMarked() {
		of = nil
		for _, p := range s.markedOnes() {
			of = append(of, subjectOf(p))
		}
	}
	switch {
	case len(of) == 0:
		s.note = words.Screen.NoneMarked.In(s.lang)
		return s, nil
	case len(of) > MaxLogs:
		s.note = words.Screen.TooManyLogs.In(s.lang, "n", MaxLogs)
		return s, nil
	}
	return s.readLog(logPane{of: of})
}

func (s State) readLog(pane logPane) (State, []Do) {
	s.logs++
	pane.number, pane.hit = s.logs, -1
	s.log = &pane
	return s.within(), []Do{ReadLog{pane.number, pane.of, pane.run, pane.follow}}
}

func (s State) logRead(m LogRead) State {
	if s.log == nil || s.log.number != m.Number {
		return s
	}
	pane := *s.log
	pane.lines = append(slices.Clip(pane.lines), m.Lines...)
	if extra := len(pane.lines) - logKept; extra > 0 {
		pane.lines = pane.lines[extra:]
		pane.before += extra
	}
	pane.first = max(pane.first, pane.before)
	pane.ended = m.Ended
	s.log = &pane
	return s
}

// inLog takes a key while the focus is on the log; ok is false if the key has another meaning.
func (s State) inLog(key string) (next State, ok bool) {
	switch key {
	case "esc", "q":
		return s.focusLog(), true
	case "n":
		return s.hitInLog(1), true
	case "N":
		return s.hitInLog(-1), true
	}
	height := s.logHeight() - 1
	by, ok := map[string]int{
		"up": -1, "k": -1, "down": 1, "j": 1, "pgup": -height, "pgdown": height,
		"home": -logKept, "g": -logKept, "end": logKept, "G": logKept,
	}[key]
	if !ok {
		return s, false
	}
	return s.scrollLog(s.log.top(height) + by), true
}

// focusLog gives the keys to the log, or back to the list.
func (s State) focusLog() State {
	if s.log == nil {
		return s
	}
	pane := *s.log
	pane.focus = !pane.focus
	s.log = &pane
	return s
}

// top is the number of the first line that is shown.
func (p *logPane) top(height int) int {
	if p.held {
		return p.first
	}
	return max(p.before, p.end()-height)
}

// end is the number after that of the last line.
func (p *logPane) end() int { return p.before + len(p.lines) }

// scrollLog holds the log at a line. At its end the log moves on with new lines.
func (s State) scrollLog(top int) State {
	pane := *s.log
	last := max(pane.before, pane.end()-(s.logHeight()-1))
	pane.first = min(max(top, pane.before), last)
	pane.held = pane.first < last
	s.log = &pane
	return s
}

// findInLog finds a text above the end of what is shown.
func (s State) findInLog(text string) State {
	pane := *s.log
	height := s.logHeight() - 1
	pane.find, pane.hit = text, min(pane.end(), pane.top(height)+height)
	s.log = &pane
	return s.hitInLog(-1)
}

// hitInLog holds the log at the next line with the text that is searched for, or at the one before.
func (s State) hitInLog(by int) State {
	pane := *s.log
	text := strings.ToLower(pane.find)
	for i := pane.hit + by; text != "" && i >= pane.before && i < pane.end(); i += by {
		if strings.Contains(strings.ToLower(pane.lines[i-pane.before].Text), text) {
			pane.hit = i
			s.log = &pane
			height := s.logHeight() - 1
			if top := pane.top(height); i >= top && i < top+height {
				return s
			}
			return s.scrollLog(i - height/2)
		}
	}
	if text != "" {
		s.note = words.Screen.NoHit.In(s.lang, "text", pane.find)
	}
	return s
}

// logTitle says whose log it is, and what is shown of it.
func (s *State) logTitle(height int) string {
	pane, first := s.log, s.log.of[0]
	title := words.Screen.LogOf.In(s.lang, "process", first.process(), "host", first.host)
	if more := len(pane.of) - 1; more > 0 {
		title += " " + words.Screen.And.In(s.lang, "n", more)
	}
	if pane.run != 0 {
		title += " · " + words.Screen.RunBefore.In(s.lang, "n", pane.run)
	}
	if pane.follow {
		title += " · " + words.Screen.Following.In(s.lang)
	}
	if pane.ended {
		title += " · " + words.Screen.LogEnd.In(s.lang)
	}
	if below := pane.end() - pane.top(height) - height; pane.held && below > 0 {
		title += " · " + words.Screen.Below.In(s.lang, "n", below)
	}
	if pane.find != "" {
		title += " · /" + pane.find
	}
	return title
}

// logLines are the title of the log and the lines that have room.
func (s *State) logLines() []string {
	if s.log == nil {
		return nil
	}
	height := s.logHeight() - 1
	rule := " ─ "
	if s.log.focus {
		rule = "▸━ "
	}
	title := ansi.TruncateWc(term.Printable(rule+s.logTitle(height)), s.width-2, "…") + " "
	dashes := strings.Repeat(string([]rune(rule)[1]), max(0, s.width-ansi.StringWidthWc(title)))
	lines := []string{fit(title+dashes, s.width)}
	names, wide := s.logNames()
	for i := s.log.top(height); i < s.log.end() && len(lines) <= height; i++ {
		mark := " "
		if i == s.log.hit {
			mark = "▸"
		}
		l := s.log.lines[i-s.log.before]
		if wide == 0 {
			lines = append(lines, fit(mark+l.Text, s.width))
			continue
		}
		name := s.paint(fit(names[l.Of], wide), hue(l.Of))
		lines = append(lines, mark+name+fit("  "+l.Text, s.width-1-wide))
	}
	for len(lines) <= height {
		lines = append(lines, fit("", s.width))
	}
	return lines
}

// logNames are the names before lines of several logs, and their width in cells; 0 for one log.
func (s *State) logNames() (names []string, wide int) {
	if len(s.log.of) == 1 {
		return nil, 0
	}
	oneProcess := !slices.ContainsFunc(s.log.of, func(of subject) bool { return of.process() != s.log.of[0].process() })
	for _, of := range s.log.of {
		name := of.host
		if !oneProcess {
			name = of.process() + " " + of.host
		}
		names = append(names, name)
		wide = max(wide, ansi.StringWidthWc(term.Printable(name)))
	}
	return names, min(wide, s.width/3)
}

// hue is the colour of the nth log (ECMA-48, SGR).
func hue(n int) string { return strconv.Itoa(36 - n%6) }
