package v1

import "time"

// The streams of a LogLine: the outputs of a foreground process, the log file that a spec names, and the output of the
// start command of a daemon and of the daemon.
const (
	StreamStdout = "stdout"
	StreamStderr = "stderr"
	StreamFile   = "file"
	StreamOutput = "output"
)

// LogLine is one line of the log of a process. It has Text, or a Lost above 0, or an Error of the host.
type LogLine struct {
	// Host is the id of the host.
	Host string `json:"host"`
	// Name is the name of the process: of several copies, the copy.
	Name string `json:"name"`
	// Time is when the host saw the line, up to about a second after it was written. It is nil if the host does not
	// know.
	Time   *time.Time `json:"time,omitempty"`
	Stream string     `json:"stream,omitempty"`
	// Run is the number of the run, from 1; 0 if the host does not know. A later run has a greater number.
	Run int `json:"run,omitempty"`
	// Text is the line without its newline, as the process wrote it: it may hold control characters. Bytes that are
	// not UTF-8 are U+FFFD.
	Text string `json:"text,omitempty"`
	// Lost is the number of bytes that are missing here: the process wrote them too fast.
	Lost int64 `json:"lost,omitempty"`
	// Error says why the host has no more lines.
	Error string `json:"error,omitempty"`
}
