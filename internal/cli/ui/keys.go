package ui

import (
	"slices"
	"strings"

	tea "charm.land/bubbletea/v2"

	v1 "drover/api/v1"
	"drover/internal/cli/term"
	"drover/internal/words"
)

// pressed takes a key.
func (s State) pressed(m tea.KeyPressMsg) (State, []Do) {
	key := m.String()
	if key == "ctrl+c" {
		return s.leave()
	}
	if s.prompt == nil { // a prompt hides the note
		s.note = ""
	}
	switch {
	case s.prompt != nil:
		return s.inPrompt(key, m.Text)
	case s.dialog != nil:
		return s.inDialog(key, m.Text)
	}
	if s.log != nil && s.log.focus {
		if next, ok := s.inLog(key); ok {
			return next, nil
		}
	}
	if r := s.onRollout(); r != nil {
		if one := stepBy(key); one != nil {
			return s.step(one, r)
		}
	} else if t := s.onTask(); t != nil && (key == "R" || key == "K") {
		return s.onTheTask(t, key)
	} else if op := opOf(key); op != "" {
		return s.act(op)
	}
	if by, ok := s.movement(key); ok {
		return s.move(by)
	}
	switch key {
	case "q", "esc":
		return s.goBack()
	case "[":
		return s.goBack()
	case "]":
		return s.goForward()
	case ":":
		s.prompt = &prompt{kind: ':'}
	case "/":
		s.prompt = &prompt{kind: '/', text: s.here.filter}
		switch {
		case s.log != nil && s.log.focus:
			s.prompt.text = s.log.find
		case s.here.kind.isText():
			s.prompt.text = s.find
		}
	case "tab":
		return s.focusLog(), nil
	case "?":
		return s.open(place{kind: help})
	case "ctrl+z":
		return s.onlyWrong()
	case "space":
		return s.mark()
	case "*":
		return s.markAll()
	case "n":
		return s.hit(1), nil
	case "N":
		return s.hit(-1), nil
	case "enter":
		return s.enter()
	}
	return s.look(key)
}

// leave ends the screen. While an operation is on its way to the server it waits for the answer once.
func (s State) leave() (State, []Do) {
	if s.sending > 0 && !s.leaving {
		s.leaving, s.note = true, words.Screen.Sending.In(s.lang)
		return s, nil
	}
	return s, []Do{Leave{}}
}

// movement is how far a key moves the selection.
func (s State) movement(key string) (by int, ok bool) {
	switch key {
	case "up", "k":
		return -1, true
	case "down", "j":
		return 1, true
	case "pgup":
		return -s.bodyHeight(), true
	case "pgdown":
		return s.bodyHeight(), true
	case "home", "g":
		return -s.here.row, true
	case "end", "G":
		return max(len(s.items), len(s.textLines())), true
	}
	return 0, false
}

// look takes the keys that show something about the selected row.
func (s State) look(key string) (State, []Do) {
	switch key {
	case "t":
		return s.open(place{kind: tasks})
	case "d":
		if _, ok := s.process(); !ok {
			return s.enter()
		}
		return s.about(describe)
	case "w":
		return s.whyHere()
	case "y":
		return s.about(spec)
	case "e":
		return s.itsEvents()
	case "l":
		return s.toggleLog()
	case "f":
		if s.log != nil {
			return s.readLog(logPane{of: s.log.of, follow: !s.log.follow, focus: s.log.focus, find: s.log.find})
		}
	case "p":
		if s.log != nil {
			return s.readLog(logPane{of: s.log.of, run: s.log.run - 1, focus: s.log.focus, find: s.log.find})
		}
	case "m":
		return s.logsOfMarked()
	case "+":
		return s.askNew(), nil
	case "i":
		if s.here.kind == person && !s.readOnly {
			return s, []Do{Link{s.here.of.id}}
		}
	case "c":
		return s.copied(words.Screen.Copied, s.rowText())
	case "C":
		return s.copied(words.Screen.CopiedCommand, s.command())
	}
	return s, nil
}

func (s State) copied(note words.Text, text string) (State, []Do) {
	if text == "" {
		return s, nil
	}
	lines := strings.Split(text, "\n")
	for i := range lines {
		lines[i] = term.Printable(lines[i]) // what a host says must not reach a shell as keys
	}
	s.note = note.In(s.lang, "text", lines[0])
	return s, []Do{Copy(strings.Join(lines, "\n"))}
}

// rowText is what 'c' copies: the name of the selected thing, or a whole text.
func (s State) rowText() string {
	if s.here.kind == secret {
		return strings.Join(s.here.text, "\n") // as long as the lines are
	}
	if s.here.kind.isText() {
		return strings.Join(s.textLines(), "\n")
	}
	switch of := subjectOf(s.selected()); {
	case of.name != "":
		return of.process() + " " + of.host
	case of.id != "":
		return of.id
	default:
		return of.host
	}
}

// process is the process that a key is about; ok is false if the selected row is about none.
func (s State) process() (of subject, ok bool) {
	of = s.here.of
	if !s.here.kind.isText() {
		of = subjectOf(s.selected())
	}
	of.id = ""
	return of, of.name != ""
}

func (s State) about(k kind) (State, []Do) {
	of, ok := s.process()
	if !ok {
		s.note = words.Screen.NotHere.In(s.lang)
		return s, nil
	}
	return s.open(place{kind: k, of: of})
}

// whyHere explains a process. On a rollout it lists what is wrong with its process.
func (s State) whyHere() (State, []Do) {
	if r := s.onRollout(); r != nil && len(r.Processes) == 1 {
		return s.open(place{kind: processes, filter: quoted(r.Processes[0]), wrong: true})
	}
	return s.about(why)
}

func (s State) itsEvents() (State, []Do) {
	of, ok := s.process()
	switch {
	case ok:
		return s.open(place{kind: events, filter: quoted(of.process(), "--hosts", of.host)})
	case of.host != "":
		return s.open(place{kind: events, filter: quoted("--hosts", of.host)})
	}
	return s.open(place{kind: events})
}

// quoted is a filter of words.
func quoted(parts ...string) string {
	for i, p := range parts {
		if strings.ContainsAny(p, ` '"`) {
			parts[i] = `"` + p + `"`
		}
	}
	return strings.Join(parts, " ")
}

// enter opens the selected row.
func (s State) enter() (State, []Do) {
	item := s.selected()
	of := subjectOf(item)
	switch v := item.(type) {
	case v1.Process, v1.Result:
		return s.open(place{kind: describe, of: of})
	case v1.JoinedHost:
		return s.open(place{kind: processes, filter: quoted("--hosts", of.host)})
	case v1.Task:
		return s.open(place{kind: results, of: of})
	case v1.Rollout:
		return s.open(place{kind: rollout, of: of})
	case v1.Event:
		return s.open(place{kind: event, of: of, event: v})
	case v1.User:
		return s.open(place{kind: person, of: of})
	}
	return s, nil
}

// onlyWrong shows only wrong processes or failed results, or all again.
func (s State) onlyWrong() (State, []Do) {
	p := s.here
	p.wrong = !p.wrong
	p.row, p.key, p.pages = 0, "", nil
	if p.kind != processes && p.kind != results {
		p = place{kind: processes, wrong: true}
	}
	if _, err := parse(p, s.lang); err != nil {
		s.note = err.Error()
		return s, nil
	}
	return s.open(p)
}

// hit moves a text to the next line with the text that is searched for, or to the one before.
func (s State) hit(by int) State {
	lines := s.textLines()
	if s.find == "" || !s.here.kind.isText() {
		return s
	}
	for i := s.here.row + by; i >= 0 && i < len(lines); i += by {
		if strings.Contains(strings.ToLower(lines[i]), strings.ToLower(s.find)) {
			s.here.row = i
			return s.within()
		}
	}
	s.note = words.Screen.NoHit.In(s.lang, "text", s.find)
	return s
}

// inPrompt takes a key while a person types a filter or a place.
func (s State) inPrompt(key, text string) (State, []Do) {
	p := *s.prompt
	p.fault = ""
	switch key {
	case "esc":
		s.prompt = nil
		return s, nil
	case "enter":
		s.prompt = nil
		text := strings.TrimSpace(p.text)
		switch p.kind {
		case ':':
			return s.jump(text)
		case 'b':
			return s.spread(text), nil
		case '+':
			return s.asksFor(text)
		}
		return s.filtered(text)
	case "backspace":
		runes := []rune(p.text)
		p.text = string(runes[:max(0, len(runes)-1)])
	case "ctrl+u":
		p.text = ""
	default:
		return s.typed(text), nil
	}
	s.prompt = &p
	return s, nil
}

// typed adds a text to the prompt.
func (s State) typed(text string) State {
	p := *s.prompt
	p.text, p.fault = p.text+term.Printable(text), ""
	s.prompt = &p
	return s
}

// filtered shows what a filter leaves, or finds a text.
func (s State) filtered(text string) (State, []Do) {
	if s.log != nil && s.log.focus {
		return s.findInLog(text), nil
	}
	if s.here.kind.isText() {
		s.find = text
		s.here.row--
		return s.hit(1).within(), nil
	}
	p := s.here
	p.filter, p.row, p.key, p.pages = text, 0, "", nil
	if _, err := parse(p, s.lang); err != nil {
		s.prompt = &prompt{'/', text, err.Error()}
		return s, nil
	}
	return s.open(p)
}

// jump shows the place that a word names.
func (s State) jump(word string) (State, []Do) {
	switch k := kind(word); {
	case word == "":
		return s, nil
	case word == "why":
		return s.open(place{kind: processes, wrong: true})
	case word == "admin": // where the administration of the console begins
		return s.open(place{kind: people})
	case word == "help":
		return s.open(place{kind: help})
	case slices.Contains([]kind{processes, hosts, tasks, rollouts, events, people, audit}, k):
		return s.open(place{kind: k})
	}
	p := place{kind: processes, filter: word}
	if _, err := parse(p, s.lang); err != nil || strings.HasPrefix(word, "-") {
		s.note = words.Screen.NoSuchPlace.In(s.lang, "word", word)
		return s, nil
	}
	return s.open(p)
}
