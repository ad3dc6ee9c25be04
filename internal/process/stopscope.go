package process

import "encoding/json"

// stopScopeLabel is the label by which a spec sets its StopScope.
const stopScopeLabel = "drover.stop_scope"

// StopScope says which processes drover ends with a process.
type StopScope string

// The scopes: the process with all processes of its run, or the main process alone.
const (
	ScopeRun     StopScope = "run"
	ScopeProcess StopScope = "process"
)

// StopScope returns ScopeProcess if the label drover.stop_scope is "process", otherwise ScopeRun.
func (s *Spec) StopScope() StopScope {
	if value, ok := s.stopScope(); ok && value == string(ScopeProcess) {
		return ScopeProcess
	}
	return ScopeRun
}

// stopScope returns the label, as JSON if it is not a string; ok is false if there is none.
func (s *Spec) stopScope() (value string, ok bool) {
	if len(s.Labels) == 0 {
		return "", false
	}
	var labels map[string]json.RawMessage
	if err := json.Unmarshal(s.Labels, &labels); err != nil {
		return "", false // the caller's own JSON may have any form
	}
	raw, ok := labels[stopScopeLabel]
	if !ok {
		return "", false
	}
	if json.Unmarshal(raw, &value) != nil {
		value = string(raw)
	}
	return value, true
}

func (s *Spec) labelFaults(f *faults) {
	if value, ok := s.stopScope(); ok && value != string(ScopeProcess) {
		f.add("meta.labels["+stopScopeLabel+"]", "is %q: expected %q, or no such label", value, ScopeProcess)
	}
}
