package probe

import (
	"context"
	"fmt"
	"strings"
	"time"

	"drover/internal/clip"
	"drover/internal/spec"

	"drover/internal/agent/liveness"
	"drover/internal/agent/ready"
	"drover/internal/process"
)

const (
	// maxVersion and maxHealth bound the text of an answer, in bytes.
	maxVersion = 64
	maxHealth  = 256
	// endTime is how long drover waits for the end of a command's processes.
	endTime = 5 * time.Second
)

// reply is the result of one command; failure is empty if the command succeeded. final says that the failure alone
// makes the process unhealthy.
type reply struct {
	output, failure string
	final           bool
}

// question runs a command that changes nothing. It ends the command with every process that it started. It does so
// early if the time is up, if the output is too large, or if ctx ends.
func (pr *Prober) question(ctx context.Context, id process.ID, spec *process.Spec, line string,
	limit time.Duration,
) reply {
	q, err := pr.cfg.Host.Question(id, pr.cfg.NewRun(id), line, spec)
	if err != nil {
		return reply{failure: err.Error()}
	}
	r := pr.hear(ctx, q, limit)
	// End it also after a success, and when the agent stops: a question leaves nothing behind.
	endCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTime)
	defer cancel()
	if left, err := q.End(endCtx); err != nil || len(left) > 0 {
		pr.cfg.Log.Warn("cannot end the processes of a probe", "process", id, "left", left, "error", err)
	}
	r.output = q.Output()
	return r
}

// reach asks the process for its health over the network.
func reach(ctx context.Context, h *spec.Health, limit time.Duration) reply {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	check, err := ready.New(spec.Ready{HTTP: h.HTTP, TCP: h.TCP, Insecure: h.Insecure}, ready.Env{})
	if err == nil {
		err = check.Try(ctx)
	}
	if err != nil {
		return reply{failure: err.Error()}
	}
	return reply{}
}

// heardLast is the last sign of life of a process to its watchdog: its last word, its start, or the start of this
// agent.
func (pr *Prober) heardLast(s Subject) (last time.Duration, trouble bool) {
	if pr.cfg.Watchdog != nil && s.Run != "" {
		last, trouble = pr.cfg.Watchdog(s.Run)
	}
	return max(last, s.StartedAt), trouble
}

// watchdog judges how long the process has said nothing.
func (pr *Prober) watchdog(j job) reply {
	if j.subject.Run == "" {
		return reply{output: "the watchdog begins with the next start: this one has no NOTIFY_SOCKET"}
	}
	last, trouble := pr.heardLast(j.subject)
	every := j.spec.WatchdogTime()
	switch {
	case trouble:
		return reply{failure: "the process itself said WATCHDOG=trigger", final: true}
	case pr.cfg.Clock()-last >= every:
		return reply{failure: fmt.Sprintf("no WATCHDOG=1 for %v", every)}
	}
	return reply{}
}

// watchdogDue is when the watchdog looks next: when the silence has lasted too long, and after a failure one time
// later.
func (pr *Prober) watchdogDue(e *entry, now time.Duration) time.Duration {
	every := e.subject.Spec.WatchdogTime()
	last, _ := pr.heardLast(e.subject)
	if e.subject.Run == "" || last+every <= now {
		return now + every
	}
	return last + every
}

const wroteTooMuch = "ended because it wrote too much"

// hear releases a question and waits for its end.
func (pr *Prober) hear(ctx context.Context, q Question, limit time.Duration) reply {
	exits := make(chan liveness.Exit, 1)
	stop, err := pr.cfg.Host.Watch(q.Identity(), func(e liveness.Exit) { exits <- e })
	if err != nil {
		return reply{failure: fmt.Sprintf("cannot watch the command: %v", err)}
	}
	defer stop()
	if err := q.Release(); err != nil {
		return reply{failure: fmt.Sprintf("cannot let the command run: %v", err)}
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case e := <-exits:
		select {
		case <-q.Full(): // the full pipe may have ended it
			return reply{failure: wroteTooMuch}
		default:
		}
		if e.Known && (e.Code != 0 || e.Signal != 0) {
			return reply{failure: e.String()}
		}
		return reply{}
	case <-timer.C:
		return reply{failure: fmt.Sprintf("timed out after %v", limit)}
	case <-q.Full():
		return reply{failure: wroteTooMuch}
	case <-ctx.Done():
		return reply{failure: context.Cause(ctx).Error()}
	}
}

// versionText returns a version that callers can show, of letters, digits, dots and dashes; else it describes the
// error. It removes white space.
func versionText(r reply) (ok bool, text string) {
	if r.failure != "" {
		return false, healthText(r)
	}
	v := strings.Join(strings.Fields(r.output), "")
	odd := strings.ContainsFunc(v, func(c rune) bool {
		return (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && c != '.' && c != '-'
	})
	if odd || v == "" || len(v) > maxVersion {
		return false, healthText(reply{failure: "the output of version_cmd is not a version", output: r.output})
	}
	return true, v
}

// healthText formats the answer to health_cmd as one line.
func healthText(r reply) string {
	text := strings.Join(strings.Fields(strings.ToValidUTF8(r.output, "\uFFFD")), " ")
	switch {
	case r.failure != "" && text != "":
		text = r.failure + ": " + text
	case r.failure != "":
		text = r.failure
	case text == "":
		text = "ok"
	}
	return clip.Head(text, maxHealth)
}
