package config

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"drover/internal/release"
	"drover/internal/selector"
)

// Agent is how an agent watches over its processes.
type Agent struct {
	// LimitInterval is how often processes with limits are measured.
	LimitInterval time.Duration
	// Flaps relaunches within FlapWindow are borne; a process with one more is flapping.
	Flaps      int
	FlapWindow time.Duration
	// RelaunchBurst relaunches can be done at once on the host, and RelaunchRate more in each second after that.
	RelaunchBurst int
	RelaunchRate  int
	// EventAge is how long an event stays on the host at most.
	EventAge time.Duration
	// Labels are the labels of the host, as KEY=VALUE with commas. FactsDir is the directory of the owner's facts.
	Labels, FactsDir string
	// ProcessMetrics is the largest number of processes that have metrics of their own.
	ProcessMetrics int
	// ReleaseKeys are the public keys that sign versions of the agent, with commas; empty: the host takes no version
	// from a server. TrialTime is how long a new version may take to prove itself.
	ReleaseKeys string
	TrialTime   time.Duration
}

// DefaultAgent returns the default settings of an agent. If more than two hundred processes crash together, they are
// relaunched as fast as the host can; ten thousand within two minutes.
func DefaultAgent() Agent {
	return Agent{
		LimitInterval: 5 * time.Second, Flaps: 3, FlapWindow: 10 * time.Minute, RelaunchBurst: 500, RelaunchRate: 100,
		EventAge: 7 * 24 * time.Hour, FactsDir: "/etc/drover/facts.d",
		TrialTime: time.Minute,
	}
}

// flagSet is the set in which flags are declared.
type flagSet interface {
	DurationVar(p *time.Duration, name string, value time.Duration, usage string)
	IntVar(p *int, name string, value int, usage string)
	StringVar(p *string, name string, value string, usage string)
}

// Flags declares the flags, with the present values for defaults.
func (a *Agent) Flags(flags flagSet) {
	flags.DurationVar(&a.LimitInterval, "limit-interval", a.LimitInterval,
		"interval at which the agent measures processes with limits, 1s to 1m")
	flags.IntVar(&a.Flaps, "flap-relaunches", a.Flaps,
		"relaunches within --flap-window before a process counts as flapping")
	flags.DurationVar(&a.FlapWindow, "flap-window", a.FlapWindow, "time window of --flap-relaunches, 1m to 24h")
	flags.IntVar(&a.RelaunchBurst, "relaunch-burst", a.RelaunchBurst, "relaunches that the host allows at once")
	flags.IntVar(&a.RelaunchRate, "relaunch-rate", a.RelaunchRate,
		"relaunches a second that the host allows after --relaunch-burst")
	flags.StringVar(&a.Labels, "labels", a.Labels,
		"labels of this host, such as role=web,zone=b; they select the host and grant no rights")
	flags.StringVar(&a.FactsDir, "facts-dir", a.FactsDir,
		"directory with facts of this host: JSON files, or executables that print JSON")
	flags.IntVar(&a.ProcessMetrics, "process-metrics", a.ProcessMetrics,
		"largest number of processes with metrics of their own, 0 to 10000; 0 is none")
	flags.DurationVar(&a.EventAge, "event-age", a.EventAge, "how long the host keeps events at most, 1h to 2160h")
}

// ReleaseFlags declares the flags about upgrades of the agent, which 'drover dev' does not have: nothing restarts it.
func (a *Agent) ReleaseFlags(flags flagSet) {
	flags.StringVar(&a.ReleaseKeys, "release-keys", a.ReleaseKeys,
		"public keys of 'drover packages keygen', with commas: the agent upgrades itself to versions that one of them signed")
	flags.DurationVar(&a.TrialTime, "trial-time", a.TrialTime,
		"time in which a new version of the agent must prove itself, 15s to 10m")
}

// Validate reports everything that is out of range.
func (a *Agent) Validate() error {
	var faults []error
	span := func(name string, d, least, most time.Duration) {
		if d < least || d > most {
			faults = append(faults, fmt.Errorf("--%s %v: expected %v to %v", name, d, least, most))
		}
	}
	number := func(name string, n, most int) {
		if n < 1 || n > most {
			faults = append(faults, fmt.Errorf("--%s %d: expected 1 to %d", name, n, most))
		}
	}
	span("limit-interval", a.LimitInterval, time.Second, time.Minute)
	number("flap-relaunches", a.Flaps, 1000)
	span("flap-window", a.FlapWindow, time.Minute, 24*time.Hour)
	number("relaunch-burst", a.RelaunchBurst, 100_000)
	number("relaunch-rate", a.RelaunchRate, 10_000)
	if a.ProcessMetrics < 0 || a.ProcessMetrics > 10_000 {
		faults = append(faults, fmt.Errorf("--process-metrics %d: expected 0 to 10000", a.ProcessMetrics))
	}
	span("trial-time", a.TrialTime, 15*time.Second, 10*time.Minute)
	for key := range strings.SplitSeq(a.ReleaseKeys, ",") {
		if a.ReleaseKeys == "" {
			break
		}
		if _, err := release.ParseKey(key); err != nil {
			faults = append(faults, fmt.Errorf("--release-keys: %w", err))
		}
	}
	span("event-age", a.EventAge, time.Hour, 90*24*time.Hour)
	_, wrong := selector.ParseLabels(a.Labels)
	for _, err := range wrong {
		faults = append(faults, fmt.Errorf("--labels: %w", err))
	}
	return errors.Join(faults...)
}
