package agent

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"drover/internal/agent/logs"
	"drover/internal/agent/operation"
	"drover/internal/agent/trail"
	"drover/internal/process"
	"drover/internal/wire"
)

// boundLog sets how much the log of a process may hold.
func (a *Agent) boundLog(id process.ID) {
	if spec, _ := a.super.Spec(id); spec != nil && spec.Foreground() {
		a.logs.Bound(id, spec)
	}
}

// Answer implements orders.Logs.
func (a *Agent) Answer(ctx context.Context, q wire.LogQuestion) wire.LogAnswer {
	spec, run := a.super.Spec(q.Process)
	if spec == nil {
		return wire.LogAnswer{Error: "the process is not registered on this host"}
	}
	if err := a.mayReadLog(q.Process, spec); err != nil {
		return wire.LogAnswer{Error: err.Error()}
	}
	path := spec.LogPath()
	if !filepath.IsAbs(path) && path != "" {
		path = filepath.Join(spec.Dir(), path)
	}
	switch {
	case spec.Foreground() && q.Stream != wire.StreamFile:
		answer := a.logs.Answer(ctx, q)
		if _, _, running := a.super.Running(q.Process); running && a.logs.Removed(q.Process) != 0 {
			sayRemoved(&q, &answer)
		}
		return answer
	case path != "" && (q.Stream == "" || q.Stream == wire.StreamFile):
		return a.logs.AnswerFile(ctx, q, path, func(path string, do func(*trail.Trail) error) error {
			return a.host.Visit(spec, path, do)
		})
	case !spec.Foreground() && (q.Stream == wire.StreamStdout || q.Stream == wire.StreamStderr):
		return wire.LogAnswer{Error: "a daemon has no " + q.Stream + " of its own: leave out " + q.Stream}
	case spec.Foreground() || run == "" || q.Cursor != "" || q.Stream != "" && q.Stream != wire.StreamOutput:
		return wire.LogAnswer{Cursor: outputRead}
	}
	return a.answerOutput(&q, run)
}

// sayRemoved makes an answer without text say that the log files were removed, once for a reader that follows the log.
func sayRemoved(q *wire.LogQuestion, answer *wire.LogAnswer) {
	lost := int64(0)
	for _, b := range answer.Blocks {
		lost += b.Lost
		if b.Lost == 0 {
			return
		}
	}
	if answer.Error != "" || q.Cursor != "" {
		return
	}
	answer.Error, answer.Blocks = operation.LogRemovedText, nil
	if lost > 0 {
		answer.Error += fmt.Sprintf("; %d bytes that it had kept are lost", lost)
	}
}

// outputRead is the cursor after the output of a daemon: it comes in one piece, and what the daemon writes later is not
// followed.
const outputRead = "output"

// answerOutput answers with the output of the start command of a daemon and of the daemon, which drover keeps in short.
func (a *Agent) answerOutput(q *wire.LogQuestion, run string) wire.LogAnswer {
	lines, err := logs.Lines(q, a.host.Output(run))
	if err != nil {
		return wire.LogAnswer{Error: err.Error()}
	}
	answer := wire.LogAnswer{Cursor: outputRead}
	if len(lines) > 0 {
		text := strings.Join(lines, "\n")
		answer.Blocks = []wire.LogBlock{{Stream: wire.StreamOutput, Text: []byte(text[max(0, len(text)-q.Limit):])}}
	}
	return answer
}

// Bounds of the comparisons of running processes. A file system that does not answer must not hold the workers that
// also read logs.
const (
	liveTime = 4 * time.Second
	// liveAtOnce is the number of questions at the same time; further ones get an empty answer.
	liveAtOnce = 4
	// liveSize is about the largest size of an answer in bytes; after that a process has one field, which says so.
	liveSize = 128 << 10
)

// Live implements orders.Logs.
func (a *Agent) Live(ctx context.Context, q wire.LiveQuestion) wire.LiveAnswer {
	var answer wire.LiveAnswer
	if a.comparing.Add(1) > liveAtOnce {
		a.comparing.Add(-1)
		return wire.LiveAnswer{Error: "the agent compares processes for other questions at the moment"}
	}
	defer a.comparing.Add(-1)
	ctx, cancel := context.WithTimeout(ctx, liveTime)
	defer cancel()
	compared := a.super.Compare(ctx, q.Processes)
	size := 0
	for _, id := range q.Processes {
		spec, rt, running := a.super.Running(id)
		if ctx.Err() != nil {
			answer.Error = "not all processes were compared within " + liveTime.String()
			break
		}
		if !running || a.policy.Allow(id, process.Query, spec) != nil {
			continue
		}
		fields, alive := a.host.Differs(id, spec, rt)
		if !alive {
			continue
		}
		for i := range fields {
			f := &fields[i]
			f.Path, f.Want = wire.LiveText(f.Path), wire.LiveText(f.Want)
			f.Have, f.Problem = wire.LiveText(f.Have), wire.LiveText(f.Problem)
			size += len(f.Path) + len(f.Want) + len(f.Have) + len(f.Problem)
		}
		if size > liveSize && len(fields) > 0 {
			fields = []process.LiveField{{Path: "process", Problem: "more differences than fit into the answer"}}
		}
		p := wire.LiveProcess{Process: id, PID: rt.Process.PID, Fields: fields[:min(len(fields), wire.MaxLiveFields)]}
		if status, _, known := a.super.Snapshot(id); known && slices.Contains(compared, id) {
			p.Compared, p.Config = true, status.Config[:min(len(status.Config), wire.MaxLiveFields)]
		}
		answer.Processes = append(answer.Processes, p)
	}
	return answer
}

// mayReadLog returns nil if the policy of this host allows the server to see what a process writes.
func (a *Agent) mayReadLog(id process.ID, spec *process.Spec) error {
	if err := a.policy.Allow(id, process.Query, spec); err != nil {
		return err
	}
	return a.policy.MayLook(id, spec)
}
