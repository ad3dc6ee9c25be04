package probe_test

import (
	"log/slog"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "drover/api/v1"
	"drover/internal/agent/instance"
	"drover/internal/agent/operation/operationtest"
	"drover/internal/agent/probe"
	"drover/internal/process"
)

// rig is a prober on a made-up host.
type rig struct {
	*operationtest.World
	*probe.Prober
	*sink
	runs int
	stop func()
}

// bubble runs fn with a rig whose prober runs, in virtual time.
func bubble(t *testing.T, fn func(t *testing.T, r *rig), set ...func(*probe.Config)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, set...)
		done := make(chan error, 1)
		ctx, cancel := contextOf(t)
		go func() { done <- r.Run(ctx, r.sink) }()
		r.stop = sync.OnceFunc(func() {
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
		defer func() { r.stop() }()
		fn(t, r)
	})
}

func newRig(t *testing.T, set ...func(*probe.Config)) *rig {
	t.Helper()
	r := &rig{World: operationtest.New(t), sink: &sink{epoch: time.Now()}}
	var mu sync.Mutex
	cfg := probe.Config{
		Host: r.World, Clock: r.Clock, Log: slog.New(slog.DiscardHandler),
		NewRun: func(process.ID) string {
			mu.Lock()
			defer mu.Unlock()
			r.runs++
			return "question-" + strconv.Itoa(r.runs)
		},
	}
	for _, s := range set {
		s(&cfg)
	}
	r.Prober = probe.New(cfg)
	return r
}

// pass lets time pass, and everything happen that it brings.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// told is an answer that the sink has heard.
type told struct {
	at       time.Duration
	id       process.ID
	instance instance.Identity
	revision uint64
	health   bool
	process.Answer
}

// sink remembers all that it hears.
type sink struct {
	epoch time.Time
	// on is called with everything, if it is set.
	on func(told)

	mu    sync.Mutex
	heard []told
}

// Answered implements probe.Sink.
func (s *sink) Answered(id process.ID, instance instance.Identity, revision uint64, health bool, a process.Answer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := told{time.Since(s.epoch), id, instance, revision, health, a}
	s.heard = append(s.heard, e)
	if s.on != nil {
		s.on(e)
	}
}

// take returns what was heard since the last call, of health or of version.
func (s *sink) take(health bool) (heard []told) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var rest []told
	for _, e := range s.heard {
		if e.health == health {
			heard = append(heard, e)
		} else {
			rest = append(rest, e)
		}
	}
	s.heard = rest
	return heard
}

func nginx() process.ID { return process.ID{Namespace: "ns", Name: "nginx"} }

// spec is of a process that is asked by these commands; an empty one is none.
func spec(health, version string, p v1.Health) *process.Spec {
	s := &process.Spec{
		ProcessName: "nginx", Directory: "/opt", User: "www", VersionCommand: version, Compat: &v1.Compat{},
	}
	if p.Exec = health; p != (v1.Health{}) {
		s.Health = &p
	}
	return s
}

func secs(n int) *v1.Duration { return new(v1.Duration(time.Duration(n) * time.Second)) }

// running starts a process and returns it as it is to be asked.
func (r *rig) running(s *process.Spec) probe.Subject {
	return probe.Subject{Instance: r.Spawn("nginx", "/run/nginx.pid", ""), StartedAt: r.Clock(), Revision: 1, Spec: s}
}
