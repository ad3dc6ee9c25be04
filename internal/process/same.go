package process

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
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
