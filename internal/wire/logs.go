package wire

import (
	"encoding/json"
	"fmt"
	"strings"

	"drover/internal/process"
)

// The bounds of questions about logs and their answers.
const (
	// MaxLogText is the most text of an answer in bytes, MaxLogBlocks the largest number of its blocks.
	MaxLogText   = 256 << 10
	MaxLogBlocks = 500
	// MaxLogTail is the largest LogQuestion.Tail, maxError the longest LogAnswer.Error in bytes.
	MaxLogTail = 100_000
	maxError   = 1000
	maxCursor  = 255
)

// The streams of a log: what the process writes, its own log file, and the output of the start command of a daemon and
// of the daemon.
const (
	StreamStdout = "stdout"
	StreamStderr = "stderr"
	StreamFile   = "file"
	StreamOutput = "output"
)

// LogQuestion asks for a piece of the log of a process. The answer brings the cursor for the next question.
type LogQuestion struct {
	Process process.ID `json:"process"`
	// Cursor is the Cursor of the last answer; empty for the first question. It replaces Run, Since and Tail.
	Cursor string `json:"cursor,omitempty"`
	// Run selects a run: 0 the present or last one, -1 the run before. A question with Since and without a Run is about
	// all runs.
	Run int `json:"run,omitempty"`
	// Since is Unix milliseconds: earlier lines are left out. Tail is the largest number of lines; 0 means all.
	Since int64 `json:"since,omitempty"`
	Tail  int   `json:"tail,omitempty"`
	// Grep is a regular expression (RE2) for lines.
	Grep string `json:"grep,omitempty"`
	// Stream is the only stream to read; empty means all.
	Stream string `json:"stream,omitempty"`
	// Follow asks for later lines, too: the agent waits a little if there are none.
	Follow bool `json:"follow,omitempty"`
	// New leaves out everything that is written already, whatever Run, Since and Tail say; it is for Follow.
	New bool `json:"new,omitempty"`
	// Limit is the most text of the answer in bytes.
	Limit int `json:"limit,omitempty"`
}

// LogAnswer is a piece of a log.
type LogAnswer struct {
	Blocks []LogBlock `json:"blocks,omitempty"`
	Cursor string     `json:"cursor,omitempty"`
	// More says that there may be more at once. Without it a reader has reached the end of the log.
	More bool `json:"more,omitempty"`
	// Error says, in a caller's words, why there is no piece. With a Cursor, a reader that follows the log can go on.
	Error string `json:"error,omitempty"`
}

// LogBlock is either some whole lines of one stream, run and moment, or a loss.
type LogBlock struct {
	Stream string `json:"stream"`
	// Run is the number of the run, from 1; 0 if it is unknown.
	Run int `json:"run,omitempty"`
	// Time is when the agent saw the lines, in Unix milliseconds; 0 if it is unknown.
	Time int64 `json:"time,omitempty"`
	// Text is the lines, each with its newline but the last one.
	Text []byte `json:"text,omitempty"`
	// Lost is the number of bytes that are missing here.
	Lost int64 `json:"lost,omitempty"`
}

// ReadLogAnswer decodes the answer of an agent to a question with this limit. It rejects an answer beyond the bounds.
func ReadLogAnswer(data []byte, limit int) (LogAnswer, error) {
	if most := 2*limit + 1000*MaxLogBlocks; len(data) > most {
		return LogAnswer{}, fmt.Errorf("cannot read log: %d bytes, expected at most %d", len(data), most)
	}
	if weight := Weight(data); weight > MaxWeight {
		return LogAnswer{}, fmt.Errorf("cannot read log: it would take %d bytes of memory, expected at most %d", weight,
			MaxWeight)
	}
	var a LogAnswer
	if err := json.Unmarshal(data, &a); err != nil {
		return LogAnswer{}, fmt.Errorf("cannot read log: %w", err)
	}
	if err := a.check(limit); err != nil {
		return LogAnswer{}, fmt.Errorf("cannot read log: %w", err)
	}
	return a, nil
}

func (a *LogAnswer) check(limit int) error {
	if len(a.Blocks) > MaxLogBlocks {
		return fmt.Errorf("it has %d blocks, expected at most %d", len(a.Blocks), MaxLogBlocks)
	}
	if len(a.Cursor) > maxCursor || strings.ContainsFunc(a.Cursor, func(r rune) bool { return r < ' ' || r > '~' }) {
		return fmt.Errorf("its cursor is not a word of at most %d bytes", maxCursor)
	}
	if len(a.Error) > maxError {
		return fmt.Errorf("its error has %d bytes, expected at most %d", len(a.Error), maxError)
	}
	size := 0
	for i := range a.Blocks {
		b := &a.Blocks[i]
		switch b.Stream {
		case StreamStdout, StreamStderr, StreamFile, StreamOutput:
		default:
			return fmt.Errorf("its block %d has the unknown stream %.20q", i, b.Stream)
		}
		if b.Lost < 0 || b.Run < 0 || b.Time < 0 {
			return fmt.Errorf("its block %d has a number below 0", i)
		}
		size += len(b.Text)
	}
	if size > limit {
		return fmt.Errorf("its text has %d bytes, expected at most %d", size, limit)
	}
	return nil
}
