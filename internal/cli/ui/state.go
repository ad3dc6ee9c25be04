package ui

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	v1 "drover/api/v1"
	"drover/internal/words"
)

// Page is the largest number of rows that the screen asks for at once.
const Page = 200

// again is the pause between an answer and the next question; seldom is the pause while the server tells what happens.
const (
	again  = 3 * time.Second
	seldom = 10 * time.Second
)

// soonest is the shortest time between two answers that events cause.
const soonest = time.Second

// silent is the time without an answer after which the server counts as lost.
const silent = 10 * time.Second

// noteTime is how long a note hides the keys that no key has asked for.
const noteTime = 5 * time.Second

// countEach is how many questions there are for each one about the number of processes.
const countEach = 5

// kind is a list of the screen, or a text.
type kind string

const (
	processes kind = "ps"
	hosts     kind = "hosts"
	tasks     kind = "tasks"
	rollouts  kind = "rollouts"
	events    kind = "events"
	results   kind = "results"
	describe  kind = "describe"
	why       kind = "why"
	spec      kind = "spec"
	event     kind = "event"
	rollout   kind = "rollout"
	people    kind = "people"
	person    kind = "person"
	audit     kind = "audit"
	secret    kind = "secret"
	help      kind = "help"
)

func (k kind) isText() bool {
	switch k {
	case describe, why, spec, event, rollout, person, secret, help:
		return true
	default:
		return false
	}
}

// subject is a process on a host, or a task, a rollout or a person with an id.
type subject struct{ namespace, name, host, id string }

func (s subject) process() string { return s.namespace + "/" + s.name }

// place is what the screen shows: a list with its filter, or a text.
type place struct {
	kind   kind
	filter string
	// wrong leaves only processes that are not as they should be, or the results that have failed.
	wrong bool
	// of is the subject of a text or of the results of a task.
	of subject
	// event is the event of a text about one.
	event v1.Event
	// text is a text that is shown once.
	text []string
	// row is the selected row of a list, or the first line of a text that is shown. key names the row.
	row int
	key string
	// pages are the cursors of the pages up to this one; the first page has none.
	pages []string
}

// isStill reports whether the server has nothing to say about a place.
func (p place) isStill() bool { return p.kind == help || p.kind == event || p.kind == secret }

func (p place) cursor() string {
	if len(p.pages) == 0 {
		return ""
	}
	return p.pages[len(p.pages)-1]
}

// running is an operation that the screen has sent. keys are the rows that show it.
type running struct {
	op   string
	task v1.Task
	keys []string
}

// everything is all that a filter matches, but some.
type everything struct {
	filter string
	wrong  bool
	except map[string]v1.Process
}

// State is all that the screen knows. A function that changes it returns a copy, and leaves the maps and lists of the
// former state as they are.
type State struct {
	lang               words.Lang
	coloured, readOnly bool
	// server and user are shown; suffix is what a command needs to reach the same server.
	server, user, suffix string
	width, height        int
	now                  time.Time

	here          place
	back, forward []place

	items []any
	next  string
	// counts are those of all processes that the filter matches; wrongOf is the number of wrong ones.
	counts  *v1.ProcessCounts
	wrongOf int
	lines   []string
	// task is the task whose results are listed.
	task   *v1.Task
	loaded bool

	// asked numbers the questions; an answer to another one is old.
	asked           int
	waiting         bool
	heardAt, lostAt time.Time
	// nextAt is when the next question is due, and watchAt when that about the tasks.
	nextAt, watchAt time.Time
	// followed is the list whose events the server tells of; mute tells that the server cannot be heard. news tells of
	// an event since the last question.
	followed   place
	mute, news bool
	// refused is why the server has rejected the last question.
	refused string
	note    string
	// passing is the latest note that no key has asked for; the screen shows it until passesAt.
	passing  string
	passesAt time.Time

	// marked are single processes; all is set if all that match a filter are marked.
	marked map[string]v1.Process
	all    *everything
	// sent are operations by the ids of their tasks; on names the task of a row.
	sent    map[string]running
	on      map[string]string
	sending int
	leaving bool

	prompt *prompt
	dialog *dialog
	log    *logPane
	logs   int
	find   string
}

// prompt is a line that a person types: after ':' a place, after '/' a filter, after 'b' batches, after '+' something
// new.
type prompt struct {
	kind rune
	text string
	// fault is what is wrong with the text that was given last.
	fault string
}

// Begin returns the state at the start, and the first questions.
func Begin(s State, filter string, now time.Time) (State, []Do) {
	s.now, s.heardAt = now, now
	s.here = place{kind: processes, filter: filter}
	return s.ask()
}

// Update returns the state after a message, and what is to be done. It neither reads the clock nor blocks.
func Update(s State, msg tea.Msg) (State, []Do) {
	switch m := msg.(type) {
	case tea.WindowSizeMsg:
		s.width, s.height = m.Width, m.Height
		return s.within(), nil
	case tea.KeyPressMsg:
		return s.pressed(m)
	case tea.PasteMsg:
		if s.prompt != nil {
			return s.typed(m.Content), nil
		}
	case Tick:
		return s.tick(time.Time(m))
	case Listed:
		return s.listed(m)
	case Chosen:
		return s.chosen(m)
	case Submitted:
		return s.submitted(m)
	case Watched:
		return s.watched(m), nil
	case Stepped:
		return s.stepped(m)
	case Cancelled:
		return s.cancelled(m)
	case Added:
		return s.added(m)
	case Happened:
		return s.happened(m)
	case LogRead:
		return s.logRead(m), nil
	case Notice:
		return s.noted(string(m)), nil
	}
	return s, nil
}

// noted shows a note that no key has asked for. It gives the keys their place back after a while.
func (s State) noted(text string) State {
	s.note, s.passing, s.passesAt = text, text, s.now.Add(noteTime)
	return s
}

// ask asks for what the screen shows.
func (s State) ask() (State, []Do) {
	if s.here.isStill() {
		s.loaded, s.waiting = true, false
		s.asked++ // an answer to an earlier question is about another place
		return s, nil
	}
	s.asked++
	s.waiting = true
	do := []Do{Ask{Number: s.asked, place: s.here, count: s.counts == nil || s.asked%countEach == 0}}
	s.news = false
	if p, told := s.here.told(); told && !p.same(s.followed) {
		s.followed, s.mute = p, false
		do = append(do, Follow{place: p})
	}
	return s, do
}

// told is the list whose events change what a place shows; ok is false if no event tells of a change.
func (p place) told() (list place, ok bool) {
	switch p.kind {
	case processes, events:
		return place{kind: p.kind, filter: p.filter}, true
	case describe, why:
		return place{kind: processes, filter: quoted(p.of.process(), "--hosts", p.of.host)}, true
	default:
		return place{}, false
	}
}

func (p place) same(q place) bool { return p.kind == q.kind && p.filter == q.filter }

// happened asks again soon after an event, because the answer on its way may be older. When the events are lost, the
// screen asks as often as without them.
func (s State) happened(m Happened) (State, []Do) {
	if !m.of.same(s.followed) {
		return s, nil
	}
	s.mute, s.news = m.Lost, true
	if s.waiting {
		return s, nil
	}
	s.nextAt = s.heardAt.Add(soonest)
	return s.tick(s.now)
}

func (s State) tick(now time.Time) (State, []Do) {
	s.now = now
	if s.note != "" && s.note == s.passing && !now.Before(s.passesAt) {
		s.note = ""
	}
	if s.waiting && s.lostAt.IsZero() && now.Sub(s.heardAt) >= silent {
		s.lostAt = s.heardAt
	}
	var do []Do
	if len(s.sent) > 0 && !now.Before(s.watchAt) {
		s.watchAt = now.Add(again)
		for _, id := range slices.Sorted(maps.Keys(s.sent)) {
			do = append(do, Watch{ID: id})
		}
	}
	if s.waiting || now.Before(s.nextAt) || s.here.isStill() || s.here.kind == spec && s.loaded {
		return s, do
	}
	s, ask := s.ask()
	return s, append(ask, do...)
}

// listed takes an answer. Without one, what was shown stays.
func (s State) listed(m Listed) (State, []Do) {
	if m.Number != s.asked {
		return s, nil
	}
	s.waiting, s.now = false, m.At
	_, told := s.here.told()
	switch {
	case m.Away != nil || s.mute && !s.news || !told && !s.news:
		s.nextAt = m.At.Add(again)
	case s.news:
		s.nextAt = m.At.Add(soonest)
	default:
		s.nextAt = m.At.Add(seldom)
	}
	if m.Away != nil {
		if s.lostAt.IsZero() {
			s.lostAt = s.heardAt
		}
		return s, nil
	}
	s.heardAt, s.lostAt, s.refused, s.task = m.At, time.Time{}, m.Refused, m.Task
	if m.Refused != "" {
		s.items, s.lines, s.counts, s.next = nil, nil, nil, ""
	} else {
		s.items, s.lines, s.next, s.wrongOf = m.Items, m.Lines, m.Next, m.Wrong
		if m.Counts != nil {
			s.counts = m.Counts
		}
	}
	s.loaded = true
	for i, item := range s.items {
		if s.here.key != "" && keyOf(item) == s.here.key {
			s.here.row = i
		}
	}
	return s.within(), nil
}

// within keeps the selected row inside the list, or the first line inside the text.
func (s State) within() State {
	last := len(s.items) - 1
	if s.here.kind.isText() {
		last = len(s.textLines()) - s.bodyHeight()
	}
	s.here.row = max(0, min(s.here.row, last))
	if !s.here.kind.isText() && s.here.row < len(s.items) {
		s.here.key = keyOf(s.items[s.here.row])
	}
	return s
}

// open shows another place; back returns here.
func (s State) open(p place) (State, []Do) {
	if s.here.kind != secret {
		s.back = append(slices.Clip(s.back), s.here)
	}
	s.forward = nil
	return s.show(p)
}

func (s State) show(p place) (State, []Do) {
	s.here = p
	s.items, s.lines, s.next, s.refused, s.loaded, s.find = nil, nil, "", "", false, ""
	s.counts, s.wrongOf, s.task = nil, 0, nil
	return s.ask()
}

// goBack shows the place before, and goForward the place that goBack left.
func (s State) goBack() (State, []Do) {
	if len(s.back) == 0 {
		s.note = words.Screen.Leave.In(s.lang)
		return s, nil
	}
	last := len(s.back) - 1
	p := s.back[last]
	if s.here.kind != secret {
		s.forward = append(slices.Clip(s.forward), s.here)
	}
	s.back = s.back[:last]
	return s.show(p)
}

func (s State) goForward() (State, []Do) {
	if len(s.forward) == 0 {
		return s, nil
	}
	last := len(s.forward) - 1
	p := s.forward[last]
	s.back = append(slices.Clip(s.back), s.here)
	s.forward = s.forward[:last]
	return s.show(p)
}

// selected is the item of the selected row; nil if there is none.
func (s State) selected() any {
	if s.here.kind.isText() || s.here.row >= len(s.items) {
		return nil
	}
	return s.items[s.here.row]
}

// move moves the selection, or the text. Beyond the end of a page it asks for the next one.
func (s State) move(by int) (State, []Do) {
	to := s.here.row + by
	switch {
	case s.here.kind.isText():
	case to >= len(s.items) && s.next != "" && s.here.row == len(s.items)-1:
		s.here.pages = append(slices.Clip(s.here.pages), s.next)
		return s.turn(0)
	case to < 0 && len(s.here.pages) > 0 && s.here.row == 0:
		s.here.pages = s.here.pages[:len(s.here.pages)-1]
		return s.turn(Page - 1)
	}
	s.here.row, s.here.key = to, ""
	return s.within(), nil
}

// turn shows another page of a list.
func (s State) turn(row int) (State, []Do) {
	s.here.row, s.here.key, s.loaded = row, "", false
	return s.ask()
}

func (s State) submitted(m Submitted) (State, []Do) {
	s.sending--
	if s.leaving {
		return s, []Do{Leave{}}
	}
	if m.Err != "" {
		s.note = m.Err
		return s, nil
	}
	if m.Rollout.ID != "" {
		s.marked, s.all = nil, nil
		s.note = leftOut(m.Rollout.LeftOut, s.lang)
		return s.open(place{kind: rollout, of: subject{id: m.Rollout.ID}})
	}
	s.watchAt = s.now.Add(again)
	s.sent, s.on = maps.Clone(s.sent), maps.Clone(s.on)
	if s.sent == nil {
		s.sent, s.on = map[string]running{}, map[string]string{}
	}
	r := running{op: m.Op, task: m.Task, keys: m.Rows}
	for _, key := range m.Rows {
		s.on[key] = m.Task.ID
	}
	s.sent[m.Task.ID] = r
	s.marked, s.all = nil, nil
	s.note = words.Screen.Sent.In(s.lang, "op", s.op(m.Op), "task", m.Task.ID, "n", m.Task.Counts.Targets)
	s.note = strings.TrimSpace(s.note + "  " + leftOut(m.Task.LeftOut, s.lang))
	s, do := s.ask()
	return s, append(do, Watch{ID: m.Task.ID})
}

// leftOut tells how many processes match a filter only since a selection was made; empty if there is none.
func leftOut(n int, lang words.Lang) string {
	if n == 0 {
		return ""
	}
	return words.Fleet.LeftOut.In(lang, "n", n)
}

// watched takes the progress of a task. The rows of a task that is done show their own causes again.
func (s State) watched(m Watched) State {
	r, ok := s.sent[m.ID]
	if !ok || m.Away {
		return s
	}
	s.sent = maps.Clone(s.sent)
	r.task = m.Task
	s.sent[m.ID] = r
	if m.Err == "" && !m.Task.Done() {
		return s
	}
	s.on = maps.Clone(s.on)
	for _, key := range r.keys {
		if s.on[key] == m.ID {
			delete(s.on, key)
		}
	}
	delete(s.sent, m.ID)
	if m.Err != "" {
		s.note = s.op(r.op) + ": " + m.Err
		return s
	}
	return s.noted(words.Screen.Ended.In(s.lang, "op", s.op(r.op), "task", m.ID, "ok",
		strconv.Itoa(m.Task.Counts.OK), "failed", strconv.Itoa(m.Task.Counts.Failed)))
}
