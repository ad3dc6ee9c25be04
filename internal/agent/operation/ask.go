package operation

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"drover/internal/agent/liveness"
	"drover/internal/agent/procfs"
	"drover/internal/process"
)

// What a query may ask a running process of by its version_cmd and health_cmd.
const (
	// askLimit bounds both commands together, so that a query is never slower than that.
	askLimit = 5 * time.Second
	// askAgain is how long an answer counts: whoever polls must not keep a host busy with questions.
	askAgain = 10 * time.Second
	// maxVersion and maxHealth bound what is shown of an answer, in bytes.
	maxVersion = 64
	maxHealth  = 256
)

// answers remembers what processes said of themselves. The zero value is ready.
type answers struct {
	mu   sync.Mutex
	byID map[process.ID]*answer
}

// answer is what one instance said under one revision of its spec.
type answer struct {
	instance procfs.Identity
	revision uint64
	// said is closed when the commands are over; version, health and at are written before.
	said            chan struct{}
	version, health string
	at              time.Duration
}

// ask has the instance's version and health filled in by the commands of the stored spec: what a query brings along is not run,
// because whoever may look need not be one who may run commands. Of several queries at the same time one runs them and the others
// wait for its answer.
func (n *session) ask(instance procfs.Identity, i *process.Instance) {
	rec := n.subject.Record
	if rec == nil || rec.Spec.Commands.Version == "" && rec.Spec.Commands.Health == "" || rec.Spec.Validate(process.Update) != nil {
		return
	}
	a, mine := n.answers.claim(n.id, instance, rec.Revision, n.Clock())
	if mine {
		a.version, a.health = n.interview(&rec.Spec)
		a.at = n.Clock()
		close(a.said)
	}
	limit := time.NewTimer(askLimit)
	defer limit.Stop()
	select {
	case <-a.said:
		if a.counts(instance, rec.Revision) {
			i.Version, i.Health = a.version, a.health
		}
	case <-limit.C:
	case <-n.ctx.Done():
	}
}

// claim returns the answer that counts now, and whether the caller has to get it.
func (s *answers) claim(id process.ID, instance procfs.Identity, revision uint64, now time.Duration) (a *answer, mine bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if a = s.byID[id]; a != nil && (!a.over() || a.counts(instance, revision) && now-a.at < askAgain) {
		return a, false
	}
	if s.byID == nil {
		s.byID = map[process.ID]*answer{}
	}
	a = &answer{instance: instance, revision: revision, said: make(chan struct{})}
	s.byID[id] = a
	return a, true
}

func (a *answer) over() bool {
	select {
	case <-a.said:
		return true
	default:
		return false
	}
}

func (a *answer) counts(instance procfs.Identity, revision uint64) bool {
	return a.instance == instance && a.revision == revision
}

// forget drops what a process said.
func (s *answers) forget(id process.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.byID, id)
}

// Describe adds to an instance what it last said of itself, if it has been asked since it began. It does not block.
func (o *Operator) Describe(id process.ID, instance procfs.Identity, i *process.Instance) {
	o.answers.mu.Lock()
	defer o.answers.mu.Unlock()
	if a := o.answers.byID[id]; a != nil && a.over() && a.instance == instance {
		i.Version, i.Health = a.version, a.health
	}
}

// interview runs the two commands one after the other; each has its share of the time.
func (n *session) interview(spec *process.Spec) (version, health string) {
	limit := min(askLimit, seconds(spec.Policy.OpTimeout))
	if spec.Commands.Version != "" && spec.Commands.Health != "" {
		limit /= 2
	}
	if line := spec.Commands.Version; line != "" {
		if r := n.question(spec, line, limit); r.failure == "" {
			version = plainVersion(r.output)
		}
	}
	if line := spec.Commands.Health; line != "" {
		health = healthText(n.question(spec, line, limit))
	}
	return version, health
}

// reply is what came of one command that only asks; failure is empty when it ended well.
type reply struct{ output, failure string }

// question runs a command that changes nothing and ends it, with all that it has started, when its time is up.
func (n *session) question(spec *process.Spec, line string, limit time.Duration) reply {
	run := n.NewRun(n.id)
	child, err := n.Commands.Launch(run, line, spec)
	defer n.Commands.Discard(run)
	if err != nil {
		return reply{failure: err.Error()}
	}
	exits := make(chan liveness.Exit, 1)
	stop, err := n.Processes.Watch(child.Identity(), func(e liveness.Exit) { exits <- e })
	if err != nil {
		child.Abandon()
		return reply{failure: fmt.Sprintf("cannot watch the command: %v", err)}
	}
	defer stop()
	if err := child.Release(); err != nil {
		return reply{failure: fmt.Sprintf("cannot let the command run: %v", err)}
	}
	r := n.hear(exits, limit)
	// Also after a good end: a question leaves nothing behind.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(n.ctx), endTime)
	defer cancel()
	left, err := n.Commands.EndTree(ctx, child.Identity(), run)
	if err != nil && !errors.Is(err, liveness.ErrGone) || len(left) > 0 {
		n.Log.Warn("what a question has started could not be ended", "process", n.id, "left", left, "error", err)
	}
	r.output = n.Commands.Output(run)
	return r
}

// hear waits for the end of a question.
func (n *session) hear(exits <-chan liveness.Exit, limit time.Duration) reply {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case e := <-exits:
		if e.Known && exitCode(e) != 0 {
			return reply{failure: e.String()}
		}
		return reply{}
	case <-timer.C:
		return reply{failure: fmt.Sprintf("timed out after %v", limit)}
	case <-n.ctx.Done():
		return reply{failure: "the agent was stopped"}
	}
}

// plainVersion keeps a version that callers can show: without white space, of letters, digits, dots and dashes; else nothing.
func plainVersion(output string) string {
	v := strings.Join(strings.Fields(output), "")
	odd := strings.ContainsFunc(v, func(c rune) bool {
		return (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && c != '.' && c != '-'
	})
	if odd || len(v) > maxVersion {
		return ""
	}
	return v
}

// healthText puts the answer to health_cmd into one line.
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
	if len(text) > maxHealth {
		text = strings.ToValidUTF8(text[:maxHealth], "")
	}
	return text
}
