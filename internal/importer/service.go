package importer

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	v1 "drover/api/v1"
	"drover/internal/spec"
)

// serviceDraft is a service while it is converted.
type serviceDraft struct {
	*draft
	unit  *unit
	timer *unit
	facts Facts
	// names are the processes of all services of the import; oneshots are the services with Type=oneshot.
	names    map[string]string
	oneshots map[string]bool
	// used are the keys that convert has read.
	used map[string]bool
}

// get returns the last value of a key of [Service], with its specifiers replaced.
func (s *serviceDraft) get(key string) string {
	s.used[key] = true
	return s.unit.expand(s.unit.last("Service", key))
}

// lines returns all values of a key of [Service], as they are written.
func (s *serviceDraft) lines(key string) []string {
	s.used[key] = true
	return s.unit.list("Service", key)
}

// words returns the words of all values of a key of [Service].
func (s *serviceDraft) words(key string) (all []string) {
	for _, line := range s.lines(key) {
		words, err := splitWords(line)
		if err != nil {
			s.lose("%s=%s is lost: it %v", key, line, err)
			continue
		}
		for _, w := range words {
			all = append(all, s.unit.expand(w))
		}
	}
	return all
}

// convert converts all settings. Each setting that no step reads becomes a comment.
func (s *serviceDraft) convert() {
	s.used = map[string]bool{}
	if text := s.unit.expand(s.unit.last("Unit", "Description")); text != "" {
		s.lose("%s (%s)", text, s.unit.name)
	}
	for _, f := range s.unit.faults {
		s.lose("%s: systemd ignores the line, too", f)
	}
	s.account()
	s.environment()
	s.what()
	s.stopping()
	s.limits()
	s.relaunch()
	s.readiness()
	s.timetable()
	s.order()
	s.rest()
}

// account converts who runs where.
func (s *serviceDraft) account() {
	s.User = firstOf(s.get("User"), "root")
	s.Group = s.get("Group")
	if s.Groups = s.words("SupplementaryGroups"); len(s.Groups) > 0 && s.User != "root" {
		s.lose("SupplementaryGroups: systemd adds these groups to those of %s, and drover replaces them: add the others "+
			"to groups", s.User)
	}
	if yes(s.get("DynamicUser")) {
		s.User = "nobody" // without an account, the process would run as root
		s.lose("DynamicUser=yes is lost: create an account, and name it in user in place of nobody")
	}
	dir, optional := strings.CutPrefix(s.get("WorkingDirectory"), "-")
	if dir == "~" {
		dir = s.home()
	}
	if dir != "" && optional && s.facts.Exists != nil && !s.facts.Exists(dir) {
		s.lose("WorkingDirectory=-%s is lost: the directory does not exist", dir)
		dir = ""
	} else if dir != "" && optional {
		s.lose("WorkingDirectory=-%s: systemd starts in / without the directory, and drover demands it", dir)
	}
	if dir != "/" {
		s.Directory = dir
	}
	if text := s.get("UMask"); text != "" {
		s.Umask = mask(text)
	}
	s.Nice = s.number("Nice")
	s.OOMScoreAdjust = s.number("OOMScoreAdjust")
	s.NoNewPrivileges = yes(s.get("NoNewPrivileges"))
	s.capabilities()
	s.directories()
}

// home is the home directory of the account.
func (s *serviceDraft) home() string {
	if s.User == "root" {
		return "/root"
	}
	if s.facts.Home != nil {
		if dir := s.facts.Home(s.User); dir != "" {
			return dir
		}
	}
	s.lose("WorkingDirectory=~ is lost: this host has no account %s. Write its home directory into directory", s.User)
	return ""
}

// directories converts the directories that systemd makes.
func (s *serviceDraft) directories() {
	for _, kind := range [][2]string{
		{"StateDirectory", "/var/lib/"},
		{"CacheDirectory", "/var/cache/"},
		{"LogsDirectory", "/var/log/"},
		{"ConfigurationDirectory", "/etc/"},
	} {
		for _, dir := range s.words(kind[0]) {
			name, _, _ := strings.Cut(dir, ":")
			s.lose("%s=%s is lost: make %s%s for %s yourself", kind[0], dir, kind[1], name,
				firstOf(s.User, "the account"))
		}
		s.used[kind[0]+"Mode"] = true
	}
	all := s.words("RuntimeDirectory")
	if len(all) == 1 && !strings.ContainsAny(all[0], "/:") {
		s.RuntimeDirectory = all[0]
	} else if len(all) > 0 {
		s.lose("RuntimeDirectory=%s is lost: drover makes one directory directly below /run", strings.Join(all, " "))
	}
	mode, keep := s.get("RuntimeDirectoryMode"), s.get("RuntimeDirectoryPreserve")
	if len(all) > 0 && mode != "" && strings.TrimLeft(mode, "0") != "755" {
		s.lose("RuntimeDirectoryMode=%s is lost", mode)
	}
	if len(all) > 0 && keep != "" && keep != "no" {
		s.lose("RuntimeDirectoryPreserve=%s is lost: the directory goes with the process", keep)
	}
}

// environment converts variables.
func (s *serviceDraft) environment() {
	for _, word := range s.words("Environment") {
		name, value, ok := strings.Cut(word, "=")
		if !ok {
			s.lose("Environment=%s is not NAME=VALUE: systemd ignores it, too", word)
			continue
		}
		if s.Environment == nil {
			s.Environment = v1.Variables{}
		}
		s.Environment[name] = value
	}
	for _, line := range s.lines("EnvironmentFile") {
		if file := s.unit.expand(line); strings.ContainsAny(file, "*?[") {
			s.lose("EnvironmentFile=%s is lost: name each file in environment_files", line)
		} else {
			s.EnvironmentFiles = append(s.EnvironmentFiles, file)
		}
	}
	if len(s.EnvironmentFiles) > 0 && len(s.Environment) > 0 {
		s.lose("environment: systemd lets a variable of a file win, and drover that of environment")
	}
	if len(s.EnvironmentFiles) > 0 && s.User != "root" {
		s.lose("environment_files: %s must be able to read the files, because drover reads them with its rights",
			firstOf(s.User, "the account"))
	}
	for _, key := range []string{"PassEnvironment", "UnsetEnvironment"} {
		if names := s.words(key); len(names) > 0 {
			s.lose("%s=%s is lost: the environment of a process is small, and fixed beside environment",
				key, strings.Join(names, " "))
		}
	}
}

// limits converts what the kernel limits.
func (s *serviceDraft) limits() {
	l := &v1.Limits{}
	for key, set := range map[string]func(int64){
		"LimitNOFILE":  func(n int64) { l.OpenFiles = v1.LimitNumber(n) },
		"LimitNPROC":   func(n int64) { l.Processes = v1.LimitNumber(n) },
		"LimitCORE":    func(n int64) { l.CoreSize = new(v1.LimitSize(n)) },
		"LimitMEMLOCK": func(n int64) { l.LockedMemory = new(v1.LimitSize(n)) },
		"LimitSTACK":   func(n int64) { l.StackSize = v1.LimitSize(n) },
		"LimitFSIZE":   func(n int64) { l.FileSize = new(v1.LimitSize(n)) },
		"MemoryMax":    func(n int64) { l.Memory = v1.Size(n) },
		"TasksMax":     func(n int64) { l.Tasks = n },
	} {
		value := s.get(key)
		soft, hard, both := strings.Cut(value, ":")
		n, err := size(soft)
		if soft == infinite {
			n, err = spec.Unlimited, nil
		}
		switch {
		case value == "":
		case soft == infinite && !strings.HasPrefix(key, "Limit"):
		case err != nil || n == 0 && !strings.Contains("LimitCORE LimitMEMLOCK LimitFSIZE", key):
			s.lose("%s=%s is lost: drover takes a number", key, value)
		default:
			set(n)
			if both && hard != soft {
				s.lose("%s=%s: drover sets both limits to %s", key, value, soft)
			}
		}
	}
	if value := s.get("MemoryLimit"); value != "" && l.Memory == 0 {
		if n, err := size(value); err == nil {
			l.Memory = v1.Size(n)
		}
	}
	if value := s.get("CPUQuota"); value != "" {
		p, err := spec.ParsePercent(value)
		if err != nil {
			s.lose("CPUQuota=%s is lost: it %v", value, err)
		}
		l.CPU = p
	}
	if *l != (v1.Limits{}) {
		s.Limits = l
	}
}

// timeSpan returns the value of a key, or otherwise. Infinity is -1.
func (s *serviceDraft) timeSpan(key string, otherwise time.Duration) time.Duration {
	text := s.get(key)
	if text == "" {
		return otherwise
	}
	d, err := span(text)
	if err != nil {
		s.lose("%s=%s is lost: %v", key, text, err)
		return otherwise
	}
	return d
}

func (s *serviceDraft) number(key string) *int {
	text := s.get(key)
	if text == "" {
		return nil
	}
	var n int
	if _, err := fmt.Sscanf(text, "%d", &n); err != nil {
		s.lose("%s=%s is lost: it is not a number", key, text)
		return nil
	}
	return &n
}

// unitNames returns the units of a key of [Unit].
func (s *serviceDraft) unitNames(key string) (all []string) {
	for _, line := range s.unit.list("Unit", key) {
		for name := range strings.FieldsSeq(line) {
			all = append(all, s.unit.expand(name))
		}
	}
	return all
}

// order converts After between the units of the import, and says what is lost of the other relations.
func (s *serviceDraft) order() {
	var units, targets []string
	for _, name := range s.unitNames("After") {
		other, imported := s.names[name]
		switch {
		case imported && other != s.name:
			if s.After == nil {
				s.After = map[string]string{}
			}
			s.After[other] = "ready"
			if s.oneshots[name] {
				s.After[other] = "finished"
			}
		case imported:
		case path.Ext(name) == service || path.Ext(name) == "":
			units = append(units, name)
		default:
			targets = append(targets, name)
		}
	}
	if len(units) > 0 {
		s.lose("After=%s is lost: name the process in after if drover runs it", strings.Join(units, " "))
	}
	if len(targets) > 0 {
		s.lose("After=%s is lost: drover waits for processes only", strings.Join(targets, " "))
	}
	shutdown := func(name string) bool { return name == "shutdown.target" }
	if before := slices.DeleteFunc(s.unitNames("Before"), shutdown); len(before) > 0 {
		s.lose("Before=%s is lost: name this process in after of the other one", strings.Join(before, " "))
	}
	for _, key := range []string{"Requires", "Wants", "BindsTo", "Requisite"} {
		var others []string
		for _, name := range s.unitNames(key) {
			if path.Ext(name) == ".socket" {
				s.lose("%s=%s is lost: drover opens no sockets for a process", key, name)
			} else {
				others = append(others, name)
			}
		}
		if len(others) > 0 {
			s.lose("%s=%s is lost: drover neither starts nor stops one process with another", key, strings.Join(others, " "))
		}
	}
}
