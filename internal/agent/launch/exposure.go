package launch

import (
	"bytes"
	"os"
)

// exposure is what the shell does first so that, when memory runs out, the command counts as any other: the agent may
// be set apart from what the kernel ends then (OOMScoreAdjust= of its unit), and a child would inherit that. It is
// empty where there is nothing to undo. Any account may do it, as it only takes away; where it cannot be done the
// command runs all the same.
func exposure() string {
	score, err := os.ReadFile("/proc/self/oom_score_adj")
	if err != nil {
		return ""
	}
	return exposureFor(score)
}

func exposureFor(score []byte) string {
	if !bytes.HasPrefix(score, []byte("-")) {
		return ""
	}
	return "{ echo 0 >/proc/self/oom_score_adj; } 2>/dev/null; "
}
