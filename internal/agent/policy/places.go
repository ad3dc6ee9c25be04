package policy

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"drover/internal/agent/trail"
	"drover/internal/process"
)

// shellWords are the characters with which a command line can run more than its first word. Inside quotes they would
// be harmless. drover rejects them there too, because only a shell can tell the two cases apart.
const shellWords = ";&|<>()$`\n\r"

// places rejects a spec that works in, reads or runs anything outside the allowed paths.
func (r *rules) places(spec *process.Spec) *refusal {
	if len(r.paths) == 0 {
		return nil
	}
	line := r.paths[0].line
	var checks [2][2]string // of ready and of health
	if r := spec.Ready; r != nil {
		checks[0] = [2]string{r.TCP, r.HTTP}
	}
	if h := spec.Health; h != nil {
		checks[1] = [2]string{h.TCP, h.HTTP}
	}
	for _, p := range pathsOf(spec) {
		if !r.inside(p.text) {
			return &refusal{line, fmt.Sprintf("%s %q is not below %s", p.field, p.text, texts(r.paths))}
		}
	}
	for i, address := range checks {
		if no := here([...]string{"ready", "health"}[i], address[0], address[1]); no != "" {
			return &refusal{line, no}
		}
	}
	for _, c := range commandsOf(spec) {
		if c.text == "" {
			continue
		}
		text := strings.TrimRight(c.text, "\n") // YAML ends a block with a newline
		if i := strings.IndexAny(text, shellWords); i >= 0 {
			return &refusal{
				line,
				fmt.Sprintf("%s holds %q: where paths are given a command is one program and its arguments", c.field,
					text[i]),
			}
		}
		// Split as a shell does: only blanks and tabs separate words.
		words := strings.FieldsFunc(text, func(r rune) bool { return r == ' ' || r == '\t' })
		if len(words) == 0 {
			continue
		}
		program := words[0]
		if !strings.Contains(program, "/") || strings.ContainsAny(program, `'"\*?[]{}~=!`) {
			return &refusal{
				line,
				fmt.Sprintf("%s begins with %q: where paths are given it begins with the path of a program", c.field,
					program),
			}
		}
		program = below(spec.Dir(), program)
		if !r.inside(program) {
			return &refusal{line, fmt.Sprintf("%s runs %q, which is not below %s", c.field, program, texts(r.paths))}
		}
	}
	return nil
}

// commandLine is a command or a path of a spec, with its field.
type commandLine struct{ field, text string }

// pathsOf returns the paths that a spec reads or works in, without empty ones.
func pathsOf(spec *process.Spec) []commandLine {
	var list []commandLine
	add := func(field, path string) {
		if path != "" {
			list = append(list, commandLine{field, below(spec.Dir(), path)})
		}
	}
	add("setup_path", spec.Dir())
	add("pid_path", spec.PIDFile)
	add("log_path", spec.LogPath())
	for _, c := range spec.ConfigFiles {
		add("config", c.Path)
	}
	for _, entry := range spec.EnvironmentFiles {
		path, _ := process.EnvironmentFile(entry)
		add("environment_files", path)
	}
	if name := spec.RuntimeDirectory; name != "" {
		add("runtime_directory", "/run/"+name)
	}
	return list
}

// below joins a relative path to dir. It does not clean the result, because the meaning of ".." depends on links.
func below(dir, path string) string {
	if filepath.IsAbs(path) || dir == "" {
		return path
	}
	return strings.TrimSuffix(dir, "/") + "/" + path
}

// here says why a check over the network leads to another host; empty if it stays on this host.
func here(check, tcp, http string) string {
	for field, address := range map[string]string{check + ".tcp": tcp, check + ".http": http} {
		if address == "" {
			continue
		}
		host := address
		if address == http {
			if u, err := url.Parse(address); err == nil {
				host = u.Host
			}
		}
		if name, _, err := net.SplitHostPort(host); err == nil {
			host = name
		}
		if host = strings.Trim(host, "[]"); host != "localhost" && host != "" && !own(host) {
			return fmt.Sprintf("%s leads to %q: where paths are given it leads to an address of this host", field, host)
		}
	}
	return ""
}

// own reports whether an address belongs to this host.
func own(address string) bool {
	ip := net.ParseIP(address)
	if ip == nil {
		return false
	}
	if ip.IsLoopback() || ip.IsUnspecified() {
		return true
	}
	all, err := net.InterfaceAddrs()
	return err == nil && slices.ContainsFunc(all, func(a net.Addr) bool {
		network, ok := a.(*net.IPNet)
		return ok && network.IP.Equal(ip)
	})
}

func commandsOf(spec *process.Spec) []commandLine {
	list := []commandLine{
		{"run", spec.Run},
		{"start_cmd", spec.Start},
		{"stop_cmd", spec.Stop},
		{"restart_cmd", spec.RestartCommand()},
		{"reload_cmd", spec.ReloadCommand()},
		{"kill_cmd", spec.KillCommand()},
		{"version_cmd", spec.VersionCommand},
		{"health_cmd", spec.HealthCommand()},
	}
	if b := spec.Preflight; b != nil {
		list = append(list, commandLine{"preflight", b.Run})
	}
	if b := spec.BeforeStart; b != nil {
		list = append(list, commandLine{"before_start", b.Run})
	}
	if b := spec.BeforeStop; b != nil {
		list = append(list, commandLine{"before_stop", b.Run})
	}
	if spec.Ready != nil {
		list = append(list, commandLine{"ready.exec", spec.Ready.Exec})
	}
	return list
}

// inside reports whether a path is one of the prefixes or below one, both as written and after its links are resolved.
// It rejects a path with "..", whose meaning depends on links and on the moment.
func (r *rules) inside(path string) bool {
	if !filepath.IsAbs(path) || slices.Contains(strings.Split(path, "/"), "..") {
		return false
	}
	return r.below(filepath.Clean(path), false) && r.below(resolved(path), true)
}

func (r *rules) below(path string, links bool) bool {
	for _, prefix := range r.paths {
		at := prefix.text
		if links {
			at = resolved(at)
		}
		if path == at || at == "/" || strings.HasPrefix(path, at+"/") {
			return true
		}
	}
	return false
}

// resolved resolves the links of the part of a path that exists.
func resolved(path string) string {
	path = filepath.Clean(path)
	way, err := trail.Follow(path)
	switch {
	case err == nil:
		defer way.Close()
		return way.Path
	case errors.Is(err, syscall.ELOOP), errors.Is(err, syscall.ENAMETOOLONG):
		return "" // the target is unknown, so it is below no prefix
	}
	parent := filepath.Dir(path)
	if parent == path {
		return path
	}
	return filepath.Join(resolved(parent), filepath.Base(path))
}
