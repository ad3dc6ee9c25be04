// Package onhost reads the units of systemd and the configuration of supervisord on this host, and asks both which
// processes they run. It changes nothing.
package onhost

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"drover/internal/importer"
)

// askTime is how long a program of the old supervisor may take.
const askTime = 30 * time.Second

// Facts are what this host says about itself.
func Facts() importer.Facts {
	f := importer.Facts{
		MachineID:     line("/etc/machine-id"),
		BootID:        strings.ReplaceAll(line("/proc/sys/kernel/random/boot_id"), "-", ""),
		KernelRelease: line("/proc/sys/kernel/osrelease"),
		Home: func(name string) string {
			u, err := user.Lookup(name)
			if err != nil {
				return ""
			}
			return u.HomeDir
		},
		Exists: func(path string) bool {
			_, err := os.Stat(path)
			return err == nil
		},
		Daemon: func(pidFile string) string {
			exe, err := os.Readlink(filepath.Join("/proc", strconv.Itoa(pidIn(pidFile)), "exe"))
			if err != nil {
				return ""
			}
			return strings.TrimSuffix(filepath.Base(exe), " (deleted)")
		},
		Script: isScript,
		RunsAs: func(configuration string) string {
			return accountOf(Supervisord(context.Background(), configuration))
		},
	}
	f.Hostname, _ = os.Hostname() // a host without a name leaves the specifiers as they are
	var u unix.Utsname
	if unix.Uname(&u) == nil {
		machine := unix.ByteSliceToString(u.Machine[:])
		f.Architecture = strings.ReplaceAll(strings.ReplaceAll(machine, "_", "-"), "aarch64", "arm64")
	}
	return f
}

// isScript reports whether a program begins with the line that names its interpreter.
func isScript(program string) bool {
	file, err := exec.LookPath(program)
	if err != nil {
		return false
	}
	f, err := os.Open(file)
	if err != nil {
		return false
	}
	defer f.Close()
	begin := make([]byte, 2)
	_, err = io.ReadFull(f, begin)
	return err == nil && string(begin) == "#!"
}

// line returns the first line of a small file; empty if it cannot be read.
func line(path string) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	first, _, _ := strings.Cut(string(data), "\n")
	return first
}

// pidIn returns the pid in a file; 0 if there is none.
func pidIn(file string) int {
	pid, err := strconv.Atoi(strings.TrimSpace(line(file)))
	if err != nil || pid < 0 {
		return 0
	}
	return pid
}

// places are the directories of units, the first one first (systemd.unit(5)).
func places() []string {
	return []string{
		"/etc/systemd/system", "/run/systemd/system", "/run/systemd/generator", "/usr/local/lib/systemd/system",
		"/usr/lib/systemd/system", "/lib/systemd/system",
	}
}

// Units reads units by name, or by a path, which has a slash. With a timer it reads the service that the timer starts.
// It blocks for at most 10 s for each name.
func Units(ctx context.Context, names []string) (all []importer.Unit, err error) {
	for _, name := range names {
		u, dir, err := unit(ctx, name)
		if err != nil {
			return nil, err
		}
		all = append(all, u)
		if filepath.Ext(u.Name) != ".timer" {
			continue
		}
		other := importer.StartedBy(u)
		if dir != "" {
			other = dir + "/" + other // Join would drop the ./ that makes it a path
		}
		if service, _, err := unit(ctx, other); err == nil { // without it the import says that the timer has no service
			all = append(all, service)
		}
	}
	return all, nil
}

// unit reads one unit. dir is the directory of a unit that is given by its path.
func unit(ctx context.Context, name string) (u importer.Unit, dir string, err error) {
	u.Name = filepath.Base(name)
	if !strings.Contains(name, "/") {
		name = unitName(name)
		u.Name = name
	}
	if prefix, isTemplate := strings.CutSuffix(name, "@"+filepath.Ext(name)); isTemplate {
		return u, "", fmt.Errorf("%s is a template, which does not run: name an instance, such as %s@1%s", name, prefix,
			filepath.Ext(name))
	}
	if strings.Contains(name, "/") {
		dir, path := filepath.Dir(name), name
		if _, err := os.Stat(path); err != nil && template(u.Name) != "" {
			path = filepath.Join(dir, template(u.Name))
		}
		u.Files, err = withDropIns(path, []string{dir}, template(u.Name), u.Name)
		return u, dir, err
	}
	if u.Files = fromSystemctl(ctx, name); u.Files != nil {
		return u, "", nil
	}
	for _, file := range []string{name, template(name)} {
		for _, dir := range places() {
			path := filepath.Join(dir, file)
			if _, err := os.Stat(path); err != nil || file == "" {
				continue
			}
			u.Files, err = withDropIns(path, places(), template(name), name)
			return u, "", err
		}
	}
	return u, "", fmt.Errorf("unit %s is in none of %s", name, strings.Join(places(), ", "))
}

// unitName is the name of a unit that a person names: without the suffix of a type it is a service, also with a dot in
// it, as php8.2-fpm (systemctl(1)).
func unitName(name string) string {
	types := []string{
		".automount", ".device", ".mount", ".path", ".scope", ".service", ".slice", ".socket", ".swap", ".target",
		".timer",
	}
	if slices.Contains(types, filepath.Ext(name)) {
		return name
	}
	return name + ".service"
}

// template is the name of the template of an instance; empty for another unit.
func template(name string) string {
	prefix, rest, ok := strings.Cut(name, "@")
	if !ok || strings.HasPrefix(rest, ".") {
		return ""
	}
	return prefix + "@" + filepath.Ext(name)
}

// withDropIns reads a unit and then its drop-ins by name. Of two drop-ins with one name the earlier directory counts.
func withDropIns(path string, dirs []string, names ...string) (all []importer.Text, err error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	all = []importer.Text{{Path: path, Data: data}}
	for _, name := range names {
		found := map[string]string{}
		var order []string
		for _, dir := range dirs {
			files, err := filepath.Glob(filepath.Join(dir, name+".d", "*.conf"))
			if err != nil || name == "" {
				continue
			}
			for _, file := range files {
				if base := filepath.Base(file); found[base] == "" {
					found[base] = file
					order = append(order, base)
				}
			}
		}
		slices.Sort(order)
		for _, base := range order {
			data, err := os.ReadFile(found[base])
			if err != nil {
				return nil, err
			}
			all = append(all, importer.Text{Path: found[base], Data: data})
		}
	}
	return all, nil
}

// fromSystemctl asks a running systemd for the files of a unit; nil if it does not answer.
func fromSystemctl(ctx context.Context, name string) (all []importer.Text) {
	out, err := ask(ctx, "systemctl", "cat", "--no-pager", "--", name)
	if err != nil {
		return nil
	}
	for text := range bytes.Lines(out) {
		if file, ok := strings.CutPrefix(strings.TrimSpace(string(text)), "# /"); ok && !strings.Contains(file, " ") {
			all = append(all, importer.Text{Path: "/" + file})
		} else if len(all) > 0 {
			last := &all[len(all)-1]
			last.Data = append(last.Data, text...)
		}
	}
	return all
}

// ask runs a program that only reads.
func ask(ctx context.Context, name string, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(cmd.Environ(), "LC_ALL=C", "SYSTEMD_PAGER=")
	return cmd.Output()
}

// Configuration reads a configuration of supervisord and the files that it includes.
func Configuration(path string) (all []importer.Text, err error) {
	if path, err = filepath.Abs(path); err != nil {
		return nil, err
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	main := importer.Text{Path: path, Data: data}
	all = []importer.Text{main}
	for _, pattern := range importer.Includes(main, Facts()) {
		files, err := filepath.Glob(pattern)
		if err != nil {
			return nil, fmt.Errorf("%s includes %s: %w", path, pattern, err)
		}
		slices.Sort(files)
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				return nil, err
			}
			all = append(all, importer.Text{Path: file, Data: data})
		}
	}
	return all, nil
}

// Unit returns the main pid of a unit; 0 if it does not run, and -1 if no systemd says.
func Unit(ctx context.Context, name string) int {
	out, err := ask(ctx, "systemctl", "show", "--property=MainPID", "--value", "--", name)
	return answer(out, err)
}

// Triggers returns the units, such as sockets, that start a unit of systemd by themselves; nil if no systemd says.
func Triggers(ctx context.Context, name string) []string {
	out, err := ask(ctx, "systemctl", "show", "--property=TriggeredBy", "--value", "--", name)
	if err != nil {
		return nil
	}
	return strings.Fields(string(out))
}

// Program returns the pid of a process of supervisord; 0 if it does not run, and -1 if no supervisord says.
func Program(ctx context.Context, configuration, name string) int {
	out, err := ask(ctx, "supervisorctl", "-c", configuration, "pid", name)
	return answer(out, err)
}

// Supervisord returns the pid of the supervisord of a configuration; 0 if none answers.
func Supervisord(ctx context.Context, configuration string) int {
	out, err := ask(ctx, "supervisorctl", "-c", configuration, "pid")
	return max(answer(out, err), 0)
}

// accountOf returns the name of the account of a process, or its number if it has no name; empty if there is no
// process.
func accountOf(pid int) string {
	info, err := os.Stat(filepath.Join("/proc", strconv.Itoa(pid)))
	if pid <= 0 || err != nil {
		return ""
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return ""
	}
	uid := strconv.FormatUint(uint64(owner.Uid), 10)
	if u, err := user.LookupId(uid); err == nil {
		return u.Username
	}
	return uid
}

// Running is a process that runs.
type Running struct {
	PID int
	// Began is when it began, in clock ticks since boot.
	Began uint64
	// Account is that of the process, Exe its executable, and Args its command line.
	Account, Exe string
	Args         []string
}

// Look returns what is known of a process; ok is false if there is none.
func Look(pid int) (r Running, ok bool) {
	dir := filepath.Join("/proc", strconv.Itoa(pid))
	stat, err := os.ReadFile(filepath.Join(dir, "stat"))
	if err != nil {
		return r, false
	}
	_, rest, _ := strings.Cut(string(stat[bytes.LastIndexByte(stat, ')')+1:]), " ")
	const began = 22 - 3 // proc_pid_stat(5); rest begins with the third field
	fields := strings.Fields(rest)
	if len(fields) <= began {
		return r, false
	}
	r = Running{PID: pid, Account: accountOf(pid)}
	r.Began, err = strconv.ParseUint(fields[began], 10, 64)
	line, unread := os.ReadFile(filepath.Join(dir, "cmdline"))
	r.Args = strings.Split(strings.TrimSuffix(string(line), "\x00"), "\x00")
	if exe, err := os.Readlink(filepath.Join(dir, "exe")); err == nil {
		r.Exe = strings.TrimSuffix(exe, " (deleted)")
	}
	return r, err == nil && unread == nil
}

// answer reads a pid. supervisorctl also answers with an exit status and without a number, for a program that it does
// not know.
func answer(out []byte, err error) int {
	pid, wrong := strconv.Atoi(strings.TrimSpace(string(out)))
	if wrong != nil || err != nil && pid != 0 {
		return -1
	}
	return pid
}
