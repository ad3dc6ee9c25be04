package importer

import (
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	v1 "drover/api/v1"
	"drover/internal/process"
)

// command is one line of ExecStart and its kin.
type command struct {
	words [][]piece
	// ignored is the prefix -, full one of + ! !!.
	ignored, full bool
}

var braced = regexp.MustCompile(`\$\{[A-Za-z_][A-Za-z0-9_]*\}|\$\$`)

var single = regexp.MustCompile(`^\$[A-Za-z_][A-Za-z0-9_]*$`)

const mainPID = "MAINPID"

// commands reads the lines of a key.
func (s *serviceDraft) commands(key string) (all []command) {
	for _, line := range s.lines(key) {
		words, err := splitWords(line)
		if err != nil {
			s.lose("%s=%s is lost: it %v", key, line, err)
			continue
		}
		for _, one := range splitCommands(words) {
			all = append(all, s.command(key, one))
		}
	}
	return all
}

// splitCommands splits words at ; as systemd does.
func splitCommands(words []string) (all [][]string) {
	for len(words) > 0 {
		n := slices.Index(words, between)
		if n < 0 {
			n = len(words)
		}
		if n > 0 {
			all = append(all, words[:n])
		}
		words = words[min(n+1, len(words)):]
	}
	return all
}

// command reads the prefixes and the variables of a line.
func (s *serviceDraft) command(key string, words []string) command {
	var c command
	literal, named := false, false
	first := strings.TrimLeftFunc(words[0], func(r rune) bool {
		switch r {
		case '-':
			c.ignored = true
		case '+', '!':
			c.full = true
		case ':':
			literal = true
		case '@':
			named = true
		default:
			return false
		}
		return true
	})
	words = append([]string{first}, words[1:]...)
	if named && len(words) > 1 {
		if path.Base(words[1]) != path.Base(first) {
			s.lose("%s=@%s: the name %s that the program would see as its own is lost", key, first, words[1])
		}
		words = slices.Delete(words, 1, 2)
	}
	if c.full && s.User != "root" {
		s.lose("%s=%s: systemd runs it with full rights, and drover as %s", key, first, firstOf(s.User, "the account"))
	}
	for i, w := range words {
		w = s.unit.expand(w)
		if literal || i == 0 {
			c.words = append(c.words, []piece{{text: w}})
			continue
		}
		c.words = append(c.words, pieces(w))
	}
	return c
}

// pieces splits a word at its variables: ${X} anywhere, $X as a whole word, which becomes several words.
func pieces(word string) (all []piece) {
	if single.MatchString(word) {
		return []piece{{text: word[1:], variable: true, split: word[1:] != mainPID}}
	}
	at := 0
	for _, m := range braced.FindAllStringIndex(word, -1) {
		if m[0] > at {
			all = append(all, piece{text: word[at:m[0]]})
		}
		if found := word[m[0]:m[1]]; found == "$$" {
			all = append(all, piece{text: "$"})
		} else {
			all = append(all, piece{text: found[2 : len(found)-1], variable: true})
		}
		at = m[1]
	}
	if at < len(word) || len(all) == 0 {
		all = append(all, piece{text: word[at:]})
	}
	return all
}

// line joins commands to a line of a shell. With replace the last one replaces the shell.
func (s *serviceDraft) line(key string, all []command, replace bool) string {
	var texts []string
	splits := false
	for i, c := range all {
		text, split := shellLine(c.words)
		splits = splits || split
		last := i == len(all)-1
		if c.ignored && (!last || !replace) {
			text = "{ " + text + " || true; }"
		}
		if last && replace && (len(all) > 1 || process.Replacing(text) == text) {
			text = "exec " + text
		}
		texts = append(texts, text)
	}
	text := strings.Join(texts, " && ")
	if len(all) == 1 && !replace && all[0].ignored {
		text = strings.TrimSuffix(strings.TrimPrefix(text, "{ "), "; }")
	}
	if splits {
		s.lose("%s: systemd keeps quoted parts of a variable together, and a shell splits at each space", key)
		text = "set -f; " + text
	}
	return text
}

// what converts what runs.
func (s *serviceDraft) what() {
	kind := firstOf(s.get("Type"), "simple")
	if !slices.Contains(strings.Fields("simple exec forking oneshot dbus notify notify-reload idle"), kind) {
		s.lose("Type=%s is lost: it is not a value of systemd", kind)
	}
	start := s.commands("ExecStart")
	s.hooks(kind, &start)
	pidFile := s.get("PIDFile")
	if pidFile != "" && !path.IsAbs(pidFile) {
		pidFile = "/run/" + pidFile
	}
	s.used["GuessMainPID"], s.used["RemainAfterExit"] = true, true
	if len(start) == 0 {
		s.lose("ExecStart is missing: there is nothing to run")
		return
	}
	if yes(s.unit.last("Service", "RemainAfterExit")) {
		s.lose("RemainAfterExit=yes is lost: the process is over after its end, and a stop does not run ExecStop")
	}
	if kind != "forking" {
		s.Run = s.line("ExecStart", start, true)
		if start[len(start)-1].ignored {
			s.lose("ExecStart=-: systemd takes every end for a success, and drover does not")
		}
		if kind == "oneshot" {
			s.Once = true
		}
		return
	}
	s.Start, s.PIDFile = s.line("ExecStart", start, false), pidFile
	s.ProcessName = s.daemon(pidFile)
	if s.ProcessName == "" {
		s.ProcessName = startedBy()[path.Base(start[0].words[0][0].text)]
	}
	program := start[0].words[0][0].text
	switch {
	case s.ProcessName != "":
	case pidFile != "" && s.facts.Script != nil && s.facts.Script(program):
		s.lose("process_name: %s is a script, so the daemon has another name: name its executable in process_name", program)
	default:
		s.ProcessName = path.Base(program)
		s.lose("process_name is that of the start command: check that the daemon has the same name")
	}
	if pidFile == "" {
		s.lose("PIDFile is missing: drover looks for a process %s in directory. A pid_file is safer", s.ProcessName)
	}
}

// startedBy returns the daemons of start commands with other names.
func startedBy() map[string]string {
	return map[string]string{
		"pg_ctl": "postgres", "pg_ctlcluster": "postgres", "apachectl": "apache2", "apache2ctl": "apache2",
	}
}

// daemon is the name of the daemon that runs now; empty if none does.
func (s *serviceDraft) daemon(pidFile string) string {
	if pidFile == "" || s.facts.Daemon == nil {
		return ""
	}
	return s.facts.Daemon(pidFile)
}

// hooks converts the commands before and after the start.
func (s *serviceDraft) hooks(kind string, start *[]command) {
	if before := s.commands("ExecStartPre"); len(before) > 0 {
		s.BeforeStart = &v1.Before{Run: s.line("ExecStartPre", before, false)}
		otherwise := 90 * time.Second
		if kind == "oneshot" {
			otherwise = -1
		}
		switch limit := s.startLimit(otherwise); {
		case limit > 0:
			s.BeforeStart.Timeout = new(v1.Duration(limit))
		default:
			s.BeforeStart.Timeout = new(v1.Duration(endless))
		}
	}
	for _, key := range []string{"ExecCondition", "ExecStopPost"} {
		if all := s.commands(key); len(all) > 0 {
			s.lose("%s=%s is lost", key, s.line(key, all, false))
		}
	}
	after := s.commands("ExecStartPost")
	if len(after) == 0 {
		return
	}
	if (kind == "forking" || kind == "oneshot") && !usesMainPID(after) {
		*start = append(*start, after...)
		return
	}
	s.lose("ExecStartPost=%s is lost: drover runs no command after a start", s.line("ExecStartPost", after, false))
}

func usesMainPID(all []command) bool {
	return slices.ContainsFunc(all, func(c command) bool {
		return slices.ContainsFunc(c.words, func(w []piece) bool {
			return slices.ContainsFunc(w, func(p piece) bool { return p.variable && p.text == mainPID })
		})
	})
}

// endless is the time limit for what systemd does not limit.
const endless = 24 * time.Hour

// startLimit is how long a start may take; -1 means without an end.
func (s *serviceDraft) startLimit(otherwise time.Duration) time.Duration {
	limit := s.timeSpan("TimeoutStartSec", s.timeSpan("TimeoutSec", otherwise))
	if limit == 0 {
		return -1
	}
	return limit
}

// killOf returns the signal of a command that only signals the main process.
func killOf(all []command) string {
	if len(all) != 1 {
		return ""
	}
	var words []string
	for _, w := range all[0].words {
		text := ""
		for _, p := range w {
			if text += p.text; p.variable {
				text = "$" + p.text
			}
		}
		words = append(words, text)
	}
	n := len(words)
	if n < 2 || n > 4 || path.Base(words[0]) != "kill" || words[n-1] != "$"+mainPID {
		return ""
	}
	name := "TERM"
	if n > 2 {
		name = strings.TrimPrefix(strings.TrimPrefix(strings.Join(words[1:n-1], ""), "-s"), "-")
	}
	name, err := signal(name)
	if err != nil {
		return ""
	}
	return name
}

// withPID reports whether a pid file can replace $MAINPID.
func (s *serviceDraft) withPID(all []command) bool {
	return s.PIDFile != "" || !usesMainPID(all)
}

// pidLine is a line in which a shell reads $MAINPID from the pid file.
func (s *serviceDraft) pidLine(key string, all []command) string {
	line := s.line(key, all, false)
	if usesMainPID(all) {
		line = fmt.Sprintf("%s=$(cat %s) && %s", mainPID, quoted(s.PIDFile), line)
	}
	return line
}

// stopping converts stop and reload.
func (s *serviceDraft) stopping() {
	wait := s.timeSpan("TimeoutStopSec", s.timeSpan("TimeoutSec", 90*time.Second))
	if wait <= 0 {
		s.lose("TimeoutStopSec=%s: drover waits at most a day", s.get("TimeoutStopSec"))
		wait = endless
	}
	name, err := signal(firstOf(s.get("KillSignal"), "TERM"))
	if err != nil {
		s.lose("KillSignal is lost: %v", err)
		name = "TERM"
	}
	stop := s.commands("ExecStop")
	switch found := killOf(stop); {
	case s.Once && len(stop) > 0:
		s.lose("ExecStop=%s is lost: a process that runs once has ended", s.line("ExecStop", stop, false))
	case found != "":
		name = found
	case len(stop) > 0 && s.withPID(stop):
		s.stopCommand(s.pidLine("ExecStop", stop), name, wait)
	case len(stop) > 0:
		s.lose("ExecStop=%s is lost: drover has no %s for it, and stops by signals", s.line("ExecStop", stop, false), mainPID)
	}
	s.StopSignals = []v1.StopSignal{{Signal: name, Wait: v1.Duration(wait)}, {Signal: "KILL"}}
	if text := s.get("SendSIGKILL"); text != "" && !yes(text) {
		s.StopSignals = s.StopSignals[:1]
	}
	if name == "KILL" {
		s.StopSignals = []v1.StopSignal{{Signal: "KILL"}}
	}
	switch mode := s.get("KillMode"); mode {
	case "process", "none":
		s.StopScope = "process"
		if mode == "none" {
			s.lose("KillMode=none: systemd ends nothing after ExecStop, and drover signals the main process")
		}
	}
	reload := s.commands("ExecReload")
	switch found := killOf(reload); {
	case found != "":
		s.Reload = &v1.Reload{Signal: found}
	case len(reload) > 0 && s.withPID(reload):
		s.Reload = &v1.Reload{Command: s.pidLine("ExecReload", reload)}
	case len(reload) > 0:
		s.lose("ExecReload=%s is lost: drover has no %s for it", s.line("ExecReload", reload, false), mainPID)
	case s.unit.last("Service", "Type") == "notify-reload":
		name, err := signal(firstOf(s.get("ReloadSignal"), "HUP"))
		if err != nil {
			s.lose("ReloadSignal is lost: %v", err)
			name = "HUP"
		}
		s.Reload = &v1.Reload{Signal: name}
	}
}

// stopCommand converts ExecStop. systemd signals the process as soon as the command is over, as drover does after
// before_stop. With KillMode=none it never does. A command that may take longer than a before_stop has to be a stop.
func (s *serviceDraft) stopCommand(line, signal string, wait time.Duration) {
	const longest = time.Minute
	given := firstOf(s.get("TimeoutStopSec"), s.get("TimeoutSec")) != ""
	none := s.get("KillMode") == "none"
	if !none && (!given || wait <= longest) {
		s.BeforeStop = &v1.BeforeStop{Run: line}
		return
	}
	s.Stop, s.Timeouts = line, &v1.Timeouts{Stop: new(v1.Duration(wait))}
	if !none {
		s.lose("ExecStop: systemd sends %s as soon as the command is over, and drover %s later. "+
			"Use before_stop if the command does not end the process itself", signal, v1.Duration(wait))
	}
}

// capabilities converts what the process may do.
func (s *serviceDraft) capabilities() {
	ambient, bounding := s.capabilityList("AmbientCapabilities"), s.capabilityList("CapabilityBoundingSet")
	switch {
	case ambient != nil && s.User != "root":
		s.Capabilities = ambient
	case bounding != nil && s.User == "root":
		s.Capabilities = bounding
	case bounding != nil:
		s.lose("CapabilityBoundingSet=%s is lost: %s has no capabilities, except by a file that grants them",
			strings.Join(s.words("CapabilityBoundingSet"), " "), firstOf(s.User, "the account"))
	}
}

// capabilityList returns the names of a key; nil if it is not set. With ~ all others count.
func (s *serviceDraft) capabilityList(key string) []string {
	lines := s.lines(key)
	if len(lines) == 0 {
		return nil
	}
	set := map[string]bool{}
	for i, line := range lines {
		list, others := strings.CutPrefix(line, "~")
		if others && i == 0 {
			for _, name := range process.Capabilities() {
				set[name] = true
			}
		}
		for name := range strings.FieldsSeq(list) {
			set[strings.TrimPrefix(strings.ToUpper(name), "CAP_")] = !others
		}
	}
	maps.DeleteFunc(set, func(_ string, in bool) bool { return !in })
	all := slices.AppendSeq([]string{}, maps.Keys(set))
	slices.Sort(all)
	return all
}
