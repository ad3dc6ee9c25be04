package operationtest

import (
	"drover/internal/agent/instance"
)

// Supervisord is the claims of a host without another drover, where a supervisord keeps its children.
type Supervisord struct {
	*World
	ID instance.Identity
}

// NewSupervisord starts a supervisord on a host.
func NewSupervisord(w *World) *Supervisord {
	return &Supervisord{World: w, ID: w.Spawn("supervisord", "", "")}
}

// Take implements operation.Claims.
func (s *Supervisord) Take(string) int { return 0 }

// Rival implements operation.Claims.
func (s *Supervisord) Rival(string) int { return 0 }

// Drop implements operation.Claims.
func (s *Supervisord) Drop(string) {}

// ForeignSupervisor implements operation.Claims.
func (s *Supervisord) ForeignSupervisor(id instance.Identity) *instance.ForeignSupervisor {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.procs[id]; p == nil || p.parent != s.ID || s.procs[s.ID] == nil {
		return nil
	}
	return &instance.ForeignSupervisor{Name: "supervisord", Parent: &s.ID}
}

// Supervises implements operation.Claims.
func (s *Supervisord) Supervises(k instance.ForeignSupervisor) bool {
	alive, _ := s.Glance(*k.Parent)
	return alive
}

// SupervisedPID implements operation.Claims.
func (s *Supervisord) SupervisedPID(k instance.ForeignSupervisor) int { return -k.Parent.PID }
