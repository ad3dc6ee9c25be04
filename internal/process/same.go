package process

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strconv"
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

// StartFields returns the fields of StartDigest, as callers know them, in which two specs differ, but for the command,
// the account and the directory.
func (s *Spec) StartFields(other *Spec) (list []string) {
	for name, differs := range map[string]bool{
		s.Field("pid_file", "pid_path"):      s.Identity.PIDPath != other.Identity.PIDPath,
		s.Field("process_name", "proc_name"): s.Identity.ProcName != other.Identity.ProcName,
		s.Field("once", "auto_type"):         (s.Policy.Kind == SingleRun) != (other.Policy.Kind == SingleRun),
		"log.pipe":                           s.Log.Pipe != other.Log.Pipe,
	} {
		if differs {
			list = append(list, name)
		}
	}
	a, b := s.Execution.fields(), other.Execution.fields()
	for name := range a {
		if a[name] != b[name] {
			list = append(list, name)
		}
	}
	for name := range b {
		if _, both := a[name]; !both {
			list = append(list, name)
		}
	}
	slices.Sort(list)
	return list
}

// fields returns the fields of an execution that count at a start, by name; each variable is one.
func (e Execution) fields() map[string]string {
	all := map[string]string{}
	for name, value := range e.Environment {
		all["environment."+name] = strconv.Quote(value)
	}
	if stack := e.RLimits.StackSize; stack != nil {
		all["limits.stack_size"] = strconv.FormatInt(*stack, 10)
	}
	e.Environment, e.RLimits, e.StrictLimits = nil, RLimits{}, false
	text, _ := json.Marshal(e) // it always encodes
	var rest map[string]json.RawMessage
	_ = json.Unmarshal(text, &rest)
	for name, value := range rest {
		all[name] = string(value)
	}
	return all
}

// StartDigest returns the same short text for specs with equal fields of the class restart: a change of other fields
// needs no new start of the process.
func (s *Spec) StartDigest() string {
	e := s.Execution
	e.StrictLimits = false
	e.RLimits = RLimits{StackSize: e.RLimits.StackSize}
	fields := []any{
		s.Commands.Run, s.Commands.Start, s.Identity.PIDPath, s.Identity.ProcName, s.Identity.SetupPath,
		s.Identity.User, s.Policy.Kind == SingleRun, e,
	}
	if s.Log.Pipe { // younger than agents that have stored digests
		fields = append(fields, "log.pipe")
	}
	text, _ := json.Marshal(fields) // it always encodes
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}
