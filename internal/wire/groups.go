package wire

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	"drover/internal/process"
)

// GroupsDigest is a digest of the process groups of one namespace: equal for equal groups in the same order, and
// empty for no groups.
func GroupsDigest(groups []process.Group) string {
	if len(groups) == 0 {
		return ""
	}
	text, err := json.Marshal(groups)
	if err != nil { // NaN or an infinity: its digest equals no other
		return "unknown"
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}
