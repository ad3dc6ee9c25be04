package process

import "cmp"

// HealthCheck is the text of the health check: a command line, a URL or an address; empty without a check.
func (s *Spec) HealthCheck() string { return cmp.Or(s.Commands.Health, s.Probes.HTTP, s.Probes.TCP) }

// Asks reports whether drover asks the process for its health or its version.
func (s *Spec) Asks() bool { return s.HealthCheck() != "" || s.Commands.Version != "" }
