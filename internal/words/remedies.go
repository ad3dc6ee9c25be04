package words

import "strings"

// remedies are what to do about a cause whose sentence contains a text, where that is more certain than the remedy of
// all such causes.
//
//nolint:gochecknoglobals // constant texts
var remedies = []struct {
	id, contains string
	remedy       Text
}{
	{"no-such-directory", "belongs to another process of drover", Text{
		"Give each process a `runtime_directory` of its own.", "为每个进程设置各自的 `runtime_directory`。",
	}},
	{"no-such-directory", "runtime_directory: ", Text{
		"Correct `runtime_directory` in its process file, or what the text says.",
		"更正进程文件中的 `runtime_directory`，或排除文中指出的问题。",
	}},
	{"crashed", "(SIGXFSZ)", Text{
		"It wrote a file larger than its limit: raise `limits.file_size`, or let the program write smaller files.",
		"它写入的文件超过上限：调高 `limits.file_size`，或让程序写较小的文件。",
	}},
	{"unhealthy", "WATCHDOG=", Text{
		"Read its log to find out why it hangs, and restart the process. If it only is slow, raise `health.every`.",
		"查看日志，找出它卡住的原因，然后重启进程。如果只是较慢，调大 `health.every`。",
	}},
	{"not-ready", "says that it stops", Text{
		"Wait for its end, or read its log to find out why it stops.", "等待它结束，或查看日志，找出它停止的原因。",
	}},
	{"odd-pid-file", " belongs to ", Text{
		"Correct `process_name` if the pid is right. Otherwise find out which program writes the file.",
		"如果 pid 正确，更正 `process_name`；否则查明是哪个程序写了该文件。",
	}},
	{"exited", "; it has left pid ", Text{
		"The command goes to the background: give it the option that keeps it in the foreground, " +
			"or use `start` with `pid_file` in place of `run`.",
		"该命令转入了后台：加上让它留在前台的选项，或用 `start` 和 `pid_file` 代替 `run`。",
	}},
	{"died-in-start-check", "exit status 0; drover ended the processes that it had started: ", Text{
		"The command goes to the background: give it the option that keeps it in the foreground, " +
			"or use `start` with `pid_file` in place of `run`.",
		"该命令转入了后台：加上让它留在前台的选项，或用 `start` 和 `pid_file` 代替 `run`。",
	}},
	{"run-skipped", " is not ready", waitsFor},
	{"run-skipped", " is not started", waitsFor},
	{"run-skipped", " has not finished", waitsFor},
	{"run-skipped", " has ended without success", waitsFor},
}

//nolint:gochecknoglobals // constant text
var waitsFor = Text{
	"Mend the process that the text names, or remove it from `after`: the next run then begins.",
	"修复文中提到的进程，或从 `after` 中去掉它，下一次运行随即按时开始。",
}

// Remedy says in a language what to do about a cause; sentence is that of the cause. english is what the server says
// of all such causes; it may be empty.
func Remedy(id, sentence, english string, l Lang) string {
	for _, r := range remedies {
		if r.id == id && strings.Contains(sentence, r.contains) {
			return r.remedy.In(l)
		}
	}
	if known := Causes[id].Remedy; known != (Text{}) && (l != English || english == "") {
		return known.In(l)
	}
	return english
}
