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

// Keeper implements operation.Claims.
func (s *Supervisord) Keeper(id instance.Identity) *instance.Keeper {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.procs[id]; p == nil || p.parent != s.ID || s.procs[s.ID] == nil {
		return nil
	}
	return &instance.Keeper{Name: "supervisord", Parent: &s.ID}
}

// Keeps implements operation.Claims.
func (s *Supervisord) Keeps(k instance.Keeper) bool {
	alive, _ := s.Glance(*k.Parent)
	return alive
}

// Keeping implements operation.Claims.
func (s *Supervisord) Keeping(k instance.Keeper) int { return -k.Parent.PID }
