package policy

import (
	"fmt"
	"path/filepath"
	"strings"

	"drover/internal/process"
)

// shellWords are what lets a command line run more than its first word. Inside quotes they would be harmless, and are refused all the
// same: to tell the two apart takes a shell.
const shellWords = ";&|<>()$`\n\r"

// places refuses a spec that works or runs anything outside the paths.
func (r *rules) places(spec *process.Spec) *refusal {
	if len(r.paths) == 0 {
		return nil
	}
	line := r.paths[0].line
	if dir := spec.Identity.SetupPath; !r.inside(dir) {
		return &refusal{line, fmt.Sprintf("setup_path %q is not below %s", dir, texts(r.paths))}
	}
	for _, c := range commandsOf(spec) {
		if c.text == "" {
			continue
		}
		if i := strings.IndexAny(c.text, shellWords); i >= 0 {
			return &refusal{line, fmt.Sprintf("%s holds %q: where paths are given a command is one program and its arguments", c.field, c.text[i])}
		}
		words := strings.Fields(c.text)
		if len(words) == 0 {
			continue
		}
		program := words[0]
		if !strings.Contains(program, "/") || strings.ContainsAny(program, `'"\*?[]{}~=!`) {
			return &refusal{line, fmt.Sprintf("%s begins with %q: where paths are given it begins with the path of a program", c.field, program)}
		}
		if !filepath.IsAbs(program) {
			program = filepath.Join(spec.Identity.SetupPath, program)
		}
		if !r.inside(program) {
			return &refusal{line, fmt.Sprintf("%s runs %q, which is not below %s", c.field, program, texts(r.paths))}
		}
	}
	return nil
}

type commandLine struct{ field, text string }

func commandsOf(spec *process.Spec) []commandLine {
	c := spec.Commands
	list := []commandLine{
		{"start_cmd", c.Start},
		{"stop_cmd", c.Stop},
		{"restart_cmd", c.Restart},
		{"reload_cmd", c.Reload},
		{"kill_cmd", c.Kill},
		{"version_cmd", c.Version},
		{"health_cmd", c.Health},
	}
	if spec.Ready != nil {
		list = append(list, commandLine{"ready.exec", spec.Ready.Exec})
	}
	return list
}

// inside reports whether a path is one of the prefixes or below one, as it is written and also where its links lead to.
func (r *rules) inside(path string) bool {
	if !filepath.IsAbs(path) {
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

// resolved follows links as far as the path is there.
func resolved(path string) string {
	path = filepath.Clean(path)
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	parent := filepath.Dir(path)
	if parent == path {
		return path
	}
	return filepath.Join(resolved(parent), filepath.Base(path))
}
