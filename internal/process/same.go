package process

import (
	"bytes"
	"encoding/json"
)

// Same reports whether two specs say the same. One that is nil says what no other one does.
func (s *Spec) Same(other *Spec) bool {
	if s == nil || other == nil {
		return false
	}
	a, err := json.Marshal(s)
	b, problem := json.Marshal(other)
	return err == nil && problem == nil && bytes.Equal(a, b)
}
