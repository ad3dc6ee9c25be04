package launch

import (
	"bytes"
	"os"

	"drover/internal/process"
)

// exposure is the first thing that the shell runs. It resets oom_score_adj to 0 if the agent's value is negative
// (OOMScoreAdjust= of its unit), because a child inherits that value: the OOM killer then treats the command like any
// other process. It is empty if there is nothing to reset, and if the command gets a value of its own. Every account
// may raise its value. If the reset fails, the command runs all the same.
func exposure(e process.Execution) string {
	if e.OOMScoreAdjust != nil {
		return ""
	}
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
