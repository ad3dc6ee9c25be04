package importer

import (
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "drover/api/v1"
	"drover/internal/process"
)

// Includes returns the patterns of the files that a configuration of supervisord includes. They are absolute if the
// path of the configuration is.
func Includes(f Text, facts Facts) (patterns []string) {
	sections, _ := parseINI(f)
	for _, s := range sections {
		if s.name != "include" {
			continue
		}
		for pattern := range strings.FieldsSeq(s.values["files"]) {
			pattern, _ = expandNames(pattern, map[string]string{
				"here": path.Dir(f.Path), "host_node_name": facts.Hostname,
			}, nil)
			if !path.IsAbs(pattern) {
				pattern = path.Join(path.Dir(f.Path), pattern)
			}
			patterns = append(patterns, pattern)
		}
	}
	return patterns
}

// Supervisord converts the programs of a configuration. files are the configuration, and then all files that it
// includes.
func Supervisord(files []Text, hosts []string, facts Facts) *Import {
	r := &Import{}
	global := &iniSection{values: map[string]string{}}
	groups := map[string]string{}
	var programs, all []*iniSection
	for _, f := range files {
		sections, faults := parseINI(f)
		r.Notes = append(r.Notes, faults...)
		all = append(all, sections...)
	}
	for _, s := range merged(all) {
		kind, name, _ := strings.Cut(s.name, ":")
		switch kind {
		case "program":
			programs = append(programs, s)
		case "supervisord":
			global = s
		case "group":
			for member := range strings.FieldsFuncSeq(s.values["programs"], func(r rune) bool { return r == ',' || r == ' ' || r == '\n' }) {
				groups[member] = name
			}
		case "eventlistener", "fcgi-program":
			r.Notes = append(r.Notes, fmt.Sprintf("[%s] is left out: drover has nothing like it", s.name))
		}
	}
	runsAs := ""
	if len(files) > 0 && facts.RunsAs != nil {
		runsAs = facts.RunsAs(files[0].Path)
	}
	for _, s := range programs {
		p := &program{
			iniSection: s, global: global, facts: facts, runsAs: runsAs, name: strings.TrimPrefix(s.name, "program:"),
		}
		p.group = firstOf(groups[p.name], p.name)
		p.grouped = groups[p.name] != ""
		p.convert(r, hosts)
	}
	return r
}

// program is a section program:NAME.
type program struct {
	*iniSection
	global      *iniSection
	facts       Facts
	name, group string
	grouped     bool
	// runsAs is the account of the running supervisord, or "".
	runsAs string
}

// instance is one process of a program while it is converted.
type instance struct {
	*draft
	*program
	names map[string]string
}

// convert makes the processes of a program.
func (p *program) convert(r *Import, hosts []string) {
	count, first := p.whole("numprocs", 1), p.whole("numprocs_start", 0)
	if p.mayBeCopies(count) {
		d := p.process(first)
		d.draft.name, d.Copies = strings.ReplaceAll(p.name, "@", "-"), &count
		for i := 1; i < count; i++ {
			d.origins = append(d.origins, p.process(first+i).origins...)
		}
		d.lose("numprocs=%d: %s to %s are %s@1 to %s@%d", count, d.origins[0], d.origins[count-1], d.draft.name, d.draft.name,
			count)
		r.finish(d.draft, hosts)
		return
	}
	for i := range min(count, maxProcesses) {
		r.finish(p.process(first+i).draft, hosts)
	}
	if count > maxProcesses {
		r.Notes = append(r.Notes, fmt.Sprintf("[%s]: only %d of %d processes are here", p.iniSection.name, maxProcesses,
			count))
	}
}

// maxProcesses bounds the processes of one program.
const maxProcesses = 1000

// mayBeCopies reports whether there are several processes that differ in their names alone.
func (p *program) mayBeCopies(count int) bool {
	if count < 2 || count > process.MaxCopies {
		return false
	}
	for key, value := range p.values {
		if key != "process_name" && !strings.HasSuffix(key, "_logfile") && strings.Contains(value, "%(process_num)") {
			return false
		}
	}
	return true
}

// process converts one process.
func (p *program) process(number int) *instance {
	host, _, _ := strings.Cut(p.facts.Hostname, " ")
	i := &instance{draft: &draft{program: p.name}, program: p, names: map[string]string{
		"program_name": p.name, "group_name": p.group, "process_num": strconv.Itoa(number), "host_node_name": host,
		"numprocs": p.values["numprocs"], "here": path.Dir(p.file),
	}}
	name := i.get("process_name", "%(program_name)s")
	i.draft.name = strings.ReplaceAll(name, "@", "-")
	i.origins = []string{p.group + ":" + name}
	if p.grouped {
		i.draft.group = p.group
	} else if name == p.name {
		i.origins = []string{p.name}
	}
	if len(p.others) > 0 {
		i.lose("[%s] is in %s: supervisord merges them, and the last value of a key wins", p.iniSection.name,
			strings.Join(append([]string{p.file}, p.others...), ", "))
	}
	i.variables()
	i.account()
	i.command()
	i.relaunch()
	i.stopping()
	i.logs()
	i.number("numprocs", 1)
	i.number("numprocs_start", 0)
	for _, key := range p.keys {
		if why := i.lossOf(key); why != "" {
			i.lose("%s=%s is lost: %s", key, p.values[key], why)
		}
	}
	return i
}

// whole returns a whole number.
func (p *program) whole(key string, otherwise int) int {
	n, err := strconv.Atoi(p.values[key])
	if err != nil || n < 0 {
		return otherwise
	}
	return n
}

// number returns a whole number, and says what is lost of another value.
func (i *instance) number(key string, otherwise int) int {
	n := i.whole(key, -1)
	if n >= 0 {
		return n
	}
	if text, given := i.values[key]; given {
		i.lose("%s=%s is lost: it is not a whole number", key, text)
	}
	return otherwise
}

var expansion = regexp.MustCompile(`%\(([A-Za-z0-9_]+)\)(0?[0-9]*)([sd])|%%`)

// expandNames replaces %(name)s. unknown is called for a name without a value, and returns what stands for it.
func expandNames(text string, names map[string]string, unknown func(name string) string) (string, bool) {
	whole := true
	out := expansion.ReplaceAllStringFunc(text, func(found string) string {
		if found == "%%" {
			return "%"
		}
		m := expansion.FindStringSubmatch(found)
		value, ok := names[m[1]]
		if !ok {
			whole = false
			if unknown == nil {
				return found
			}
			return unknown(m[1])
		}
		width, _ := strconv.Atoi(m[2])
		fill := " "
		if strings.HasPrefix(m[2], "0") && m[3] == "d" {
			fill = "0"
		}
		return strings.Repeat(fill, max(0, min(width, 20)-len(value))) + value
	})
	return out, whole
}

// get returns a value with its expansions. A value with a variable that only supervisord knows is lost.
func (i *instance) get(key, otherwise string) string {
	text := firstOf(i.values[key], otherwise)
	value, whole := expandNames(text, i.names, nil)
	if !whole {
		i.lose("%s=%s is lost: it has a variable of supervisord", key, text)
		return ""
	}
	return value
}

// variables converts environment, of supervisord and then of the program.
func (i *instance) variables() {
	all := v1.Variables{}
	for _, section := range []*iniSection{i.global, i.iniSection} {
		text, whole := expandNames(section.values["environment"], i.names, nil)
		if !whole {
			i.lose("environment: a variable that supervisord inherits is lost: write its value yourself")
		}
		found, err := pairs(text)
		if err != nil {
			i.lose("environment is lost: it %v", err)
			continue
		}
		maps.Copy(all, found)
		for name, value := range found {
			i.names["ENV_"+name] = value
		}
	}
	for name, value := range all {
		if strings.Contains(value, "%(ENV_") {
			delete(all, name)
		}
	}
	if len(all) > 0 {
		i.Environment = all
	}
}

// pairs reads KEY="value",KEY2=value2.
func pairs(text string) (v1.Variables, error) {
	words, err := splitShell(text, ",=")
	if err != nil {
		return nil, err
	}
	all := v1.Variables{}
	for at := 0; at < len(words); {
		if words[at] == "," {
			at++
			continue
		}
		if at+1 >= len(words) || words[at+1] != "=" {
			return nil, fmt.Errorf("is not KEY=VALUE, … at %q", words[at])
		}
		key, value := words[at], ""
		for at += 2; at < len(words) && words[at] != ","; at++ {
			value += words[at]
		}
		all[key] = value
	}
	return all, nil
}

// account converts who runs where.
func (i *instance) account() {
	i.User = firstOf(i.get("user", ""), i.global.values["user"])
	switch {
	case i.User != "" || i.runsAs == "root":
	case i.runsAs == "":
		i.lose("user: supervisord runs the process as its own account, and no supervisord runs with this configuration. " +
			"drover runs the process as root: write the account into user if that is another one")
	default:
		i.User = i.runsAs // else it would become root's
	}
	i.Directory = firstOf(i.get("directory", ""), i.global.values["directory"])
	if i.Directory == "/" {
		i.Directory = ""
	}
	if i.Directory == "" {
		i.lose("directory: supervisord runs the process in its own directory, and drover in /")
	}
	if text := firstOf(i.get("umask", ""), i.global.values["umask"]); text != "" {
		i.Umask = mask(text)
	}
}

// command converts the command line. A variable that supervisord inherits becomes one of a shell.
func (i *instance) command() {
	text := i.values["command"]
	words, err := splitShell(text, "")
	if err != nil {
		i.lose("command=%s is lost: it %v", text, err)
		return
	}
	var line [][]piece
	foreign := map[string]bool{}
	for _, w := range words {
		var all []piece
		const mark = "\x00"
		w, _ = expandNames(w, i.names, func(name string) string {
			return mark + name + mark
		})
		for n, part := range strings.Split(w, mark) {
			variable, isVariable := strings.CutPrefix(part, "ENV_")
			switch {
			case n%2 == 1 && isVariable:
				foreign[variable] = true
				all = append(all, piece{text: variable, variable: true})
			case n%2 == 1:
				i.lose("command: drover does not know %%(%s)s", part)
			case part != "" || w == "":
				all = append(all, piece{text: part})
			}
		}
		line = append(line, all)
	}
	if name := words[:min(len(words), 1)]; len(name) == 1 && !strings.Contains(name[0], "/") {
		i.lose("command: supervisord looks for %s in its own PATH, and drover in a fixed one: write the whole path", name[0])
	}
	i.Run, _ = shellLine(line)
	if len(foreign) > 0 {
		i.Run = "exec " + i.Run
		i.lose("command: supervisord inherits %s: set each in environment",
			strings.Join(slices.Sorted(maps.Keys(foreign)), ", "))
	}
}

// relaunch converts autorestart and the time of a start.
func (i *instance) relaunch() {
	alive := time.Duration(i.number("startsecs", 1)) * time.Second
	if alive != time.Second {
		within := max(30*time.Second, alive+10*time.Second)
		i.Ready = &v1.Ready{Alive: new(v1.Duration(alive)), Within: new(v1.Duration(within))}
	}
	r := &v1.Restart{When: "on-failure", ResetAfter: new(v1.Duration(max(alive, time.Second)))}
	i.Restart = r
	tries := i.number("startretries", 3)
	switch text := i.get("autorestart", "unexpected"); strings.ToLower(text) {
	case "unexpected":
	case "true", "1", "yes", "on", "t", "y":
		r.When = "always"
	case "false", "0", "no", "off", "f", "n", "none":
		r.When = "never"
	default:
		i.lose("autorestart=%s is lost: it is not a value of supervisord", text)
	}
	if r.When != "never" {
		r.GiveUpAfter = new(v1.Count(max(tries, 1)))
		r.MaxDelay = new(v1.Duration(time.Duration(max(tries, 1)) * time.Second))
	}
	if text := i.get("exitcodes", ""); text != "" && r.When != "always" {
		codes, unknown := statuses(strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' }))
		if r.SuccessCodes = codes; len(unknown) > 0 {
			i.lose("exitcodes=%s is lost", strings.Join(unknown, ","))
		}
	}
	if text := i.get("autostart", "true"); !yes(text) {
		i.lose("autostart=%s is lost: drover apply starts the process. drover stop keeps it down", text)
	}
}

// stopping converts the signals of a stop.
func (i *instance) stopping() {
	name, err := signal(i.get("stopsignal", "TERM"))
	if err != nil {
		i.lose("stopsignal is lost: %v", err)
		name = "TERM"
	}
	wait := v1.Duration(time.Duration(max(i.number("stopwaitsecs", 10), 1)) * time.Second)
	i.StopSignals = []v1.StopSignal{{Signal: name, Wait: wait}, {Signal: "KILL"}}
	if !yes(i.values["stopasgroup"]) && !yes(i.values["killasgroup"]) {
		i.lose("supervisord leaves children of the process alone at a stop, and drover ends them (stop_scope: process leaves them)")
	}
}

// logs converts the bounds of the output.
func (i *instance) logs() {
	l := &v1.Log{}
	text := i.get("stdout_logfile_maxbytes", "")
	if n, err := size(text); err != nil && text != "" {
		i.lose("stdout_logfile_maxbytes=%s is lost: %v", text, err)
	} else if err == nil && n > 0 {
		l.MaxSize = new(v1.Size(n))
	}
	if n := i.number("stdout_logfile_backups", 0); n > 0 {
		l.Keep = &n
	}
	if *l != (v1.Log{}) {
		i.Log = l
	}
}

// lossOf says what is lost without a key; empty if another step has read it.
func (i *instance) lossOf(key string) string {
	switch {
	case matches(key, "command process_name numprocs numprocs_start directory umask user environment autostart autorestart "+
		"startsecs startretries exitcodes stopsignal stopwaitsecs stopasgroup killasgroup redirect_stderr "+
		"stdout_logfile_maxbytes stdout_logfile_backups stderr_logfile_maxbytes stderr_logfile_backups serverurl"):
		return ""
	case matches(key, "stdout_logfile stderr_logfile"):
		if strings.EqualFold(i.values[key], "AUTO") {
			return ""
		}
		return "drover keeps the output itself, see drover logs"
	case key == "priority":
		return "name the processes that must start before in after"
	}
	return unknownLoss
}
