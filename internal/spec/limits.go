package spec

import "slices"

// GroupLimits are limits of a control group; 0 means no limit. Memory is in bytes, CPU in percent of one processor, and
// Tasks counts processes and threads.
type GroupLimits struct {
	Memory int64
	CPU    int
	Tasks  int64
}

// GroupLimits returns the limits that a control group enforces.
func (s *Spec) GroupLimits() GroupLimits {
	if s.Limits == nil {
		return GroupLimits{}
	}
	return GroupLimits{int64(s.Limits.Memory), int(s.Limits.CPU), s.Limits.Tasks}
}

// Shares returns the thresholds that drover judges, in percent of the whole machine; 0 means none.
func (s *Spec) Shares() Thresholds {
	if s.Thresholds == nil {
		return Thresholds{}
	}
	return *s.Thresholds
}

// The names of the limits of setrlimit(2), which are fields of Limits.
const (
	OpenFiles    = "open_files"
	CoreSize     = "core_size"
	LockedMemory = "locked_memory"
	StackSize    = "stack_size"
	Processes    = "processes"
	FileSize     = "file_size"
)

// RLimit is a limit of setrlimit(2), soft and hard: bytes or a number, or Unlimited.
type RLimit struct {
	Name  string
	Value int64
}

// RLimits are limits of setrlimit(2), each at most once.
type RLimits []RLimit

// Get returns a limit; set is false if there is none.
func (l RLimits) Get(name string) (value int64, set bool) {
	for _, one := range l {
		if one.Name == name {
			return one.Value, true
		}
	}
	return 0, false
}

// With returns the limits with another value of one of them.
func (l RLimits) With(name string, value int64) RLimits {
	l = slices.Clone(l)
	for i := range l {
		if l[i].Name == name {
			l[i].Value = value
		}
	}
	return l
}

// Execution is what the commands of a process get beside account, directory and variables. Absent values are those of
// the host.
type Execution struct {
	RLimits                     RLimits
	Umask, Nice, OOMScoreAdjust *int
	NoNewPrivileges             bool
	// Capabilities are the names, without CAP_, of the capabilities that remain; nil keeps the account's.
	Capabilities []string
	// Strict says that a start fails if the host cannot give the limits, Nice or OOMScoreAdjust exactly.
	Strict bool
}

// RLimits returns the limits of setrlimit(2) that are set.
func (s *Spec) RLimits() (all RLimits) {
	l := s.Limits
	if l == nil {
		return nil
	}
	add := func(name string, value int64, set bool) {
		if set {
			all = append(all, RLimit{name, value})
		}
	}
	add(OpenFiles, int64(l.OpenFiles), l.OpenFiles != 0)
	add(CoreSize, int64(or(l.CoreSize, 0)), l.CoreSize != nil)
	add(LockedMemory, int64(or(l.LockedMemory, 0)), l.LockedMemory != nil)
	add(StackSize, int64(l.StackSize), l.StackSize != 0)
	add(Processes, int64(l.Processes), l.Processes != 0)
	add(FileSize, int64(or(l.FileSize, 0)), l.FileSize != nil)
	return all
}

// Execution returns what the commands of the process get.
func (s *Spec) Execution() Execution {
	e := Execution{
		RLimits: s.RLimits(), Nice: s.Nice, OOMScoreAdjust: s.OOMScoreAdjust, NoNewPrivileges: s.NoNewPrivileges,
		Strict: s.StrictLimits(),
	}
	if mask, ok := s.Umasked(); ok {
		e.Umask = &mask
	}
	if s.Capabilities != nil {
		e.Capabilities = make([]string, len(s.Capabilities))
		for i, name := range s.Capabilities {
			e.Capabilities[i] = CapabilityName(name)
		}
	}
	return e
}

// StrictLimits reports whether a start fails if the host cannot give the limits exactly.
func (s *Spec) StrictLimits() bool { return s.Limits != nil && s.Limits.Strict }

// ChangedLimits returns the names of the limits that differ between two specs and that a running process can get: all
// but the size of the stack.
func ChangedLimits(was, is *Spec) []string {
	return append(ChangedGroupLimits(was, is), ChangedRLimits(was, is)...)
}

// ChangedGroupLimits is ChangedLimits for the limits of the control group.
func ChangedGroupLimits(was, is *Spec) (names []string) {
	a, b := was.GroupLimits(), is.GroupLimits()
	for _, l := range []struct {
		name    string
		differs bool
	}{{"memory", a.Memory != b.Memory}, {"cpu", a.CPU != b.CPU}, {"tasks", a.Tasks != b.Tasks}} {
		if l.differs {
			names = append(names, l.name)
		}
	}
	return names
}

// ChangedRLimits is ChangedLimits for the limits of setrlimit(2).
func ChangedRLimits(was, is *Spec) (names []string) {
	before, now := was.RLimits(), is.RLimits()
	for _, name := range []string{OpenFiles, CoreSize, LockedMemory, Processes, FileSize} {
		old, had := before.Get(name)
		value, has := now.Get(name)
		if had != has || old != value {
			names = append(names, name)
		}
	}
	return names
}
