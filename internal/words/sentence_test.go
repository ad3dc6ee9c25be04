package words_test

import (
	"strings"
	"testing"

	"drover/internal/words"
)

// TestRemedyOfASentence: what to do fits what the sentence says, not only the kind of cause.
func TestRemedyOfASentence(t *testing.T) {
	for _, c := range []struct{ id, sentence, want string }{
		{"no-such-directory", "relaunch 4 failed: runtime_directory: /run/same belongs to another process of drover", "own"},
		{"no-such-directory", "cannot enter /opt", "`directory`"},
		{"crashed", "pid 7 killed by signal 25 (SIGXFSZ) at T", "`limits.file_size`"},
		{"crashed", "pid 7 killed by signal 11 (SIGSEGV) at T", "core dump"},
		{"unhealthy", "the health check failed 5 times in a row: no WATCHDOG=1 for 2s", "why it hangs"},
		{"unhealthy", "the health check failed 5 times in a row: exit status 1", "its port"},
		{"not-ready", "pid 7 says that it stops", "its end"},
		{"odd-pid-file", "pid 7 of pid file /p belongs to sleep", "`process_name`"},
		{"exited", "pid 7 exit status 0 at T; it has left pid 9 running", "`pid_file`"},
		{
			"stop-failed", "stop process (a) failed, for post-check status still alive: pid 7 is there after 12 s; " +
				"the stop command failed: exit status 3; drover sent TERM", "`stop` command",
		},
		{"killed-by-signal", "pid 7 killed by signal 1 (SIGHUP) at T; its reload ended it; relaunched as pid 9", "`reload`"},
		{"run-skipped", "the run of T was skipped: a/b is not ready (stopped)", "`after`"},
		{"run-skipped", "the run of T was skipped: the previous run had not ended", "`schedule.overlap`"},
		{"meteor", "", ""},
	} {
		english := words.Remedy(c.id, c.sentence, "", words.English)
		chinese := words.Remedy(c.id, c.sentence, english, words.Chinese)
		if !strings.Contains(english, c.want) || english != "" && (!strings.HasSuffix(english, ".") ||
			!strings.HasSuffix(chinese, "。")) {
			t.Errorf("%s, %q: %q, %q", c.id, c.sentence, english, chinese)
		}
	}
}
