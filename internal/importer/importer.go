package importer

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	v1 "drover/api/v1"
	"drover/internal/process"
	"drover/internal/processfile"
)

// Text is one file of another supervisor.
type Text struct {
	Path string
	Data []byte
}

// Facts are what the host says about itself. A nil function knows nothing.
type Facts struct {
	Hostname, MachineID, BootID, KernelRelease, Architecture string
	// Home returns the home directory of an account, or "".
	Home func(user string) string
	// Exists reports whether a file exists.
	Exists func(path string) bool
	// Daemon returns the base name of the executable of the process in a pid file, or "".
	Daemon func(pidFile string) string
	// Script reports whether a program is a script, which another program executes.
	Script func(program string) bool
	// RunsAs returns the account of the supervisord that runs with a configuration, or "".
	RunsAs func(configuration string) string
}

// Process is one process with what is needed to find it in the old supervisor.
type Process struct {
	processfile.Named
	// Origins are the units of systemd, or the names that supervisorctl knows: PROGRAM or GROUP:PROCESS. Each copy has
	// one; another process has one.
	Origins []string
	// Program is the section [program:PROGRAM] of supervisord, and Group its [group:GROUP]; empty if there is none.
	Program, Group string
	// PrivateTmp says that systemd deletes the /tmp and /var/tmp of the process when the unit stops.
	PrivateTmp bool
}

// Import is the result for all files.
type Import struct {
	Processes []Process
	// Notes are about parts of the files that became no process.
	Notes []string
}

// Write returns the processes as a process file. Comments say what is lost.
func (r *Import) Write(namespace string) ([]byte, error) {
	var text strings.Builder
	for _, n := range r.Notes {
		for line := range strings.Lines(n) {
			text.WriteString("# " + strings.TrimRight(line, "\n") + "\n")
		}
	}
	d := processfile.Document{Namespace: namespace}
	for i := range r.Processes {
		d.Processes = append(d.Processes, r.Processes[i].Named)
	}
	file, err := processfile.Write([]processfile.Document{d})
	return append([]byte(text.String()), file...), err
}

// Compare adds comments about what a running process has changed itself: its account and its program. own is the
// account of a process without one in its file, args its command line, and exe its executable.
func (p *Process) Compare(own, account, exe string, args []string) {
	var comments []string
	if user := cmp.Or(p.User, own); account != "" && account != user {
		comments = append(comments, fmt.Sprintf("user: the process runs as %s now. drover starts it as %s, as before, and "+
			"the program changes the account itself", account, user))
	}
	words, exact := process.Words(p.Run)
	names := []string{path.Base(exe)}
	for _, arg := range args[:min(2, len(args))] { // a script is behind its interpreter
		names = append(names, path.Base(strings.TrimSuffix(arg, ":")))
	}
	if p.Run != "" && exact && exe != "" && !slices.Contains(names, path.Base(words[0])) {
		comments = append(comments, fmt.Sprintf("run: the process executes %s now, as the command has become that program",
			exe))
	}
	p.Comments = append(p.Comments, wrapped(comments)...)
}

// Locate names the program of a foreground process by its path, as the running one was started.
func (p *Process) Locate(file string) {
	name, rest, _ := strings.Cut(p.Run, " ")
	before, command := "", name
	if name == "exec" {
		before, rest = "exec ", strings.TrimPrefix(p.Run, "exec ")
		command, rest, _ = strings.Cut(rest, " ")
	}
	if path.IsAbs(file) && path.Base(file) == command {
		p.Run = strings.TrimSpace(before + quoted(file) + " " + rest)
	}
}

// draft is a process while its settings are converted.
type draft struct {
	name    string
	origins []string
	// program and group are those of Process.
	program, group string
	privateTmp     bool
	v1.Spec
	comments []string
}

// lose adds a comment.
func (d *draft) lose(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !slices.Contains(d.comments, text) {
		d.comments = append(d.comments, text)
	}
}

// finish removes what drover refuses, names the hosts and adds the process to the result.
func (r *Import) finish(d *draft, hosts []string) {
	d.Hosts.Names = hosts
	for n, name := 2, d.name; r.has(d.name); n++ {
		d.name = fmt.Sprintf("%s-%d", name, n)
	}
	var gone []string
	for {
		path, text := fault(d)
		if path == "" && text == "" {
			break
		}
		removed, err := without(d.Spec, path)
		if err != nil || path == "" {
			r.Notes = append(r.Notes, fmt.Sprintf("%s is left out: %s", strings.Join(d.origins, ", "),
				strings.Join(append([]string{text}, d.comments...), "; ")))
			return
		}
		timed := d.Schedule != nil
		d.Spec = removed
		if timed && d.Schedule == nil {
			d.Once = true // a process that ran by a timetable must not become one that runs always
			d.lose("once: with its schedule lost, nothing starts the process by itself after its first run")
		}
		// A part can be wrong only because one of its fields is gone. Then the comment on the field says it all.
		if !slices.ContainsFunc(gone, func(field string) bool { return strings.HasPrefix(field, path+".") }) {
			d.lose("%s", text)
		}
		gone = append(gone, path)
	}
	r.Processes = append(r.Processes, Process{
		Named:   processfile.Named{Name: d.name, Spec: d.Spec, Comments: wrapped(d.comments)},
		Origins: d.origins, Program: d.program, Group: d.group, PrivateTmp: d.privateTmp,
	})
}

// wrapped breaks long comments into lines.
func wrapped(comments []string) (lines []string) {
	const width = 110
	for _, text := range comments {
		line, indent := "", ""
		for word := range strings.FieldsSeq(text) {
			if line != "" && len(indent)+len(line)+1+len(word) > width {
				lines = append(lines, indent+line)
				line, indent = "", "  "
			}
			line = strings.TrimPrefix(line+" "+word, " ")
		}
		lines = append(lines, indent+line)
	}
	return lines
}

// mask is octal digits as a process file has them.
func mask(digits string) string {
	digits = strings.TrimLeft(digits, "0")
	return strings.Repeat("0", max(0, 3-len(digits))) + digits
}

func (r *Import) has(name string) bool {
	return slices.ContainsFunc(r.Processes, func(p Process) bool { return p.Name == name })
}

// fault returns the first field that drover refuses, and the reason.
func fault(d *draft) (path, text string) {
	docs := []processfile.Document{{Namespace: "x", Processes: []processfile.Named{{Name: d.name, Spec: d.Spec}}}}
	below := func(path string) string {
		return strings.TrimPrefix(strings.TrimPrefix(path, "processes."+d.name), ".")
	}
	for _, f := range processfile.Check(docs) {
		return below(f.Path), below(f.Path) + " is lost, because its value " + f.Text
	}
	spec := processfile.Canonical(d.Spec)
	for _, f := range processfile.FaultsOf(&spec, process.Start) {
		return f.Path, f.Path + " is lost, because its value " + f.Text
	}
	return "", ""
}

func tree(spec v1.Spec) (all map[string]any, err error) {
	text, err := json.Marshal(spec)
	if err == nil {
		err = json.Unmarshal(text, &all)
	}
	return all, err
}

// without returns a spec without a field. An item of a list takes the whole list with it.
func without(spec v1.Spec, path string) (rest v1.Spec, err error) {
	all, err := tree(spec)
	if err != nil {
		return spec, err
	}
	path, _, _ = strings.Cut(path, "[")
	if !remove(all, path) {
		return spec, errors.New("no such field")
	}
	text, err := json.Marshal(all)
	if err == nil {
		err = json.Unmarshal(text, &rest)
	}
	return rest, err
}

// remove removes a field, and each part that becomes empty. The name of a field may contain dots.
func remove(from map[string]any, path string) bool {
	if _, ok := from[path]; ok {
		delete(from, path)
		return true
	}
	first, rest, _ := strings.Cut(path, ".")
	part, ok := from[first].(map[string]any)
	if !ok || !remove(part, rest) {
		return false
	}
	if len(part) == 0 {
		delete(from, first)
	}
	return true
}
