package spec

import (
	"bytes"
	"encoding/json"
	"maps"
)

// stopScopeLabel is the label by which callers of GSE set StopScope.
const stopScopeLabel = "drover.stop_scope"

// LabelsJSON returns the labels as callers of GSE know them: as JSON, with the label that is a field of its own; nil
// without labels.
func (s *Spec) LabelsJSON() json.RawMessage {
	if text := s.compat().Labels; text != "" {
		return json.RawMessage(text)
	}
	all := map[string]string{}
	maps.Copy(all, s.Labels)
	if s.StopScope == ScopeProcess {
		all[stopScopeLabel] = string(ScopeProcess)
	}
	if len(all) == 0 {
		return nil
	}
	text, _ := json.Marshal(all) // names and texts always encode
	return text
}

// SetLabels sets the labels that a caller of GSE has sent. The JSON of LabelsJSON means the same.
func (s *Spec) SetLabels(labels json.RawMessage) {
	var compact bytes.Buffer
	if len(labels) == 0 || s.Compat == nil {
		return
	}
	if json.Compact(&compact, labels) != nil {
		s.Compat.Labels = string(labels)
		return
	}
	s.Compat.Labels = compact.String()
	var all map[string]string
	if json.Unmarshal(labels, &all) != nil || len(all) == 0 {
		return
	}
	found := Spec{Labels: all}
	if scope, ok := all[stopScopeLabel]; ok {
		if scope != string(ScopeProcess) {
			return // see ScopeLabel
		}
		delete(all, stopScopeLabel)
		found.StopScope = ScopeProcess
	}
	if !bytes.Equal(found.LabelsJSON(), compact.Bytes()) {
		return
	}
	s.Compat.Labels, s.StopScope = "", found.StopScope
	if len(all) > 0 {
		s.Labels = all
	}
}

// ScopeLabel returns the value of the label that GSE has for StopScope, as JSON if it is not a string, where it says
// nothing that StopScope could say; ok is false if there is none.
func (s *Spec) ScopeLabel() (value string, ok bool) {
	var labels map[string]json.RawMessage
	if json.Unmarshal([]byte(s.compat().Labels), &labels) != nil {
		return "", false // the caller's own JSON may have any form
	}
	raw, ok := labels[stopScopeLabel]
	if ok && json.Unmarshal(raw, &value) != nil {
		value = string(raw)
	}
	return value, ok && value != string(ScopeProcess)
}
