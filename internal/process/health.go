package process

import (
	"cmp"
	"time"
)

// watchdogCheck is the health check of a process with a watchdog.
const watchdogCheck = "watchdog"

// HealthCheck is the text of the health check: a command line, a URL, an address or "watchdog"; empty without a check.
func (s *Spec) HealthCheck() string {
	if s.Probes.Watchdog {
		return watchdogCheck
	}
	return cmp.Or(s.Commands.Health, s.Probes.HTTP, s.Probes.TCP)
}

// Asks reports whether drover asks the process for its health or its version.
func (s *Spec) Asks() bool { return s.HealthCheck() != "" || s.Commands.Version != "" }

// Notifies reports whether the process gets a NOTIFY_SOCKET.
func (s *Spec) Notifies() bool { return s.Probes.Watchdog || s.Ready != nil && s.Ready.Notify }

// defaultWatchdog is the time between two words of a process to its watchdog.
const defaultWatchdog = time.Minute

// WatchdogTime is the longest silence of the process towards its watchdog; 0 without a watchdog.
func (s *Spec) WatchdogTime() time.Duration {
	if !s.Probes.Watchdog {
		return 0
	}
	return cmp.Or(time.Duration(s.Probes.HealthInterval)*time.Second, defaultWatchdog)
}
