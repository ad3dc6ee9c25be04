package spec

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
)

// Same reports whether two specs say the same; their revisions may differ. A nil spec equals nothing.
func (s *Spec) Same(other *Spec) bool {
	if s == nil || other == nil {
		return false
	}
	a, err := json.Marshal(s.Unnumbered())
	b, problem := json.Marshal(other.Unnumbered())
	return err == nil && problem == nil && bytes.Equal(a, b)
}

// Unnumbered returns the spec without its revision and without what is for one order: specs that say the same are then
// equal.
func (s *Spec) Unnumbered() *Spec {
	if s.Revision == 0 && s.Beside == Refuse {
		return s
	}
	bare := *s
	bare.Revision, bare.Beside = 0, Refuse
	return &bare
}

// Numbered returns the spec with the revision that brought it.
func (s *Spec) Numbered(revision int64) *Spec {
	if s == nil || s.Revision == revision {
		return s
	}
	numbered := *s
	numbered.Revision = revision
	return &numbered
}

// Digest returns the same text for specs that say the same, and another one for each other spec.
func (s *Spec) Digest() string {
	text, _ := json.Marshal(s.Unnumbered()) // a spec always encodes
	sum := sha256.Sum256(text)
	return string(sum[:])
}

// atRestart are the fields whose change takes effect at the next start of the process. The others take effect at once,
// without touching the running process.
func atRestart() []string {
	return strings.Fields("run start pid_file process_name directory user group groups environment environment_files " +
		"umask nice oom_score_adjust no_new_privileges capabilities runtime_directory once on_demand limits.stack_size log.pipe")
}

// AtRestart reports whether a change of a field, by its path, takes effect at the next start of the process.
func AtRestart(path string) bool { return slices.Contains(atRestart(), path) }

// startFields returns the fields of AtRestart that are set, by path, as JSON; each variable is one.
func (s *Spec) startFields() map[string]string {
	own := *s
	own.Once, own.OnDemand, own.Directory = s.Kind() == SingleRun, false, s.Dir()
	own.Capabilities, own.Environment = s.Execution().Capabilities, nil
	if mask, ok := s.Umasked(); ok {
		own.Umask = strconv.FormatInt(int64(mask), 8) //nolint:mnd // octal
	}
	text, _ := json.Marshal(own) // a spec always encodes
	var fields map[string]json.RawMessage
	_ = json.Unmarshal(text, &fields)
	all := map[string]string{}
	for _, path := range atRestart() {
		within, name := fields, path
		if part, field, inside := strings.Cut(path, "."); inside {
			within, name = nil, field
			_ = json.Unmarshal(fields[part], &within)
		}
		if value, set := within[name]; set {
			all[path] = string(value)
		}
	}
	for name, value := range s.Environment {
		all["environment."+name] = strconv.Quote(value)
	}
	return all
}

// StartFields returns the fields of AtRestart, as callers know them, in which two specs differ, but for the command,
// the account and the directory.
func (s *Spec) StartFields(other *Spec) (list []string) {
	wire := map[string]string{"pid_file": "pid_path", "process_name": "proc_name", "once": "auto_type"}
	a, b := s.startFields(), other.startFields()
	for _, name := range []string{"run", "start", "user", "directory"} {
		delete(a, name)
		delete(b, name)
	}
	add := func(name string) {
		if known := wire[name]; known != "" {
			name = s.Field(name, known)
		}
		list = append(list, name)
	}
	for name := range a {
		if a[name] != b[name] {
			add(name)
		}
	}
	for name := range b {
		if _, both := a[name]; !both {
			add(name)
		}
	}
	slices.Sort(list)
	return list
}

// StartDigest returns the same short text for specs with equal fields of AtRestart: a change of other fields needs no
// new start of the process.
func (s *Spec) StartDigest() string {
	text, _ := json.Marshal(s.startFields()) // it always encodes, in the order of the names
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}
