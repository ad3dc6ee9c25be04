package process

import (
	"bytes"
	"encoding/json"
)

// Same reports whether two specs are equal. A nil spec equals nothing.
func (s *Spec) Same(other *Spec) bool {
	if s == nil || other == nil {
		return false
	}
	a, err := json.Marshal(s)
	b, problem := json.Marshal(other)
	return err == nil && problem == nil && bytes.Equal(a, b)
}
