package importer

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "drover/api/v1"
	"drover/internal/spec"
)

// The defaults of systemd.
const (
	defaultPause        = 100 * time.Millisecond
	defaultStartLimit   = 10 * time.Second
	defaultBurst        = 5
	defaultStartTimeout = 90 * time.Second
	// longestStart is the longest that drover waits for a start.
	longestStart = time.Hour
)

// relaunch converts Restart and what belongs to it.
func (s *serviceDraft) relaunch() {
	when := firstOf(s.get("Restart"), "no")
	if !slices.Contains(strings.Fields("no always on-success on-failure on-abnormal on-abort on-watchdog"), when) {
		s.lose("Restart=%s is lost: it is not a value of systemd", when)
		when = "no"
	}
	delay := s.timeSpan("RestartSec", defaultPause)
	longest, steps := s.timeSpan("RestartMaxDelaySec", 0), s.number("RestartSteps")
	successes := s.words("SuccessExitStatus")
	prevented := s.words("RestartPreventExitStatus")
	if forced := s.words("RestartForceExitStatus"); len(forced) > 0 {
		s.lose("RestartForceExitStatus=%s is lost", strings.Join(forced, " "))
	}
	if s.Once || s.timer != nil {
		if when != "no" {
			s.lose("Restart=%s is lost: drover does not relaunch a process that runs once or by a timetable", when)
		}
		return
	}
	r := &v1.Restart{When: map[string]spec.When{
		"no": "never", "always": "always", "on-success": "always",
	}[when]}
	if r.When == "" {
		r.When = "on-failure"
	}
	switch when {
	case "on-success":
		s.lose("Restart=on-success: drover relaunches after a failure, too")
	case "on-abnormal", "on-abort", "on-watchdog":
		s.lose("Restart=%s: drover relaunches after every failure, also after an exit code", when)
	}
	s.Restart = r
	if when != "always" && when != "on-success" {
		r.SuccessCodes = s.ends("SuccessExitStatus", append(strings.Fields("0 HUP INT TERM PIPE"), successes...))
	}
	r.NeverOn = s.ends("RestartPreventExitStatus", prevented)
	if when == "no" {
		return
	}
	r.Delay, r.MaxDelay = new(v1.Duration(delay)), new(v1.Duration(delay))
	r.Factor, r.Jitter = new(1.0), new(v1.Percent(0))
	if delay < 0 {
		s.lose("RestartSec=infinity is lost")
		r.Delay, r.MaxDelay, r.Factor, r.Jitter = nil, nil, nil, nil
	} else if steps != nil && *steps > 0 && longest > delay && delay > 0 {
		factor := math.Pow(float64(longest)/float64(delay), 1/float64(*steps))
		r.MaxDelay, r.Factor = new(v1.Duration(longest)), new(math.Max(1, math.Round(factor*100)/100))
	}
	s.giveUp(delay)
}

func (s *serviceDraft) ends(key string, words []string) []v1.Status {
	if len(words) == 0 {
		return nil
	}
	all, unknown := statuses(words)
	if len(unknown) > 0 {
		s.lose("%s=%s is lost: drover knows no such exit code or signal", key, strings.Join(unknown, " "))
	}
	return all
}

// giveUp converts the limit of starts. A run that is longer than its share of the interval never reaches the limit.
func (s *serviceDraft) giveUp(delay time.Duration) {
	read := func(key, otherwise string) string {
		s.used[key] = true
		return firstOf(s.unit.last("Unit", key), s.unit.last("Service", key), otherwise)
	}
	text := read("StartLimitIntervalSec", read("StartLimitInterval", defaultStartLimit.String()))
	interval, err := span(text)
	if err != nil {
		s.lose("StartLimitIntervalSec=%s is lost: %v", text, err)
		interval = defaultStartLimit
	}
	burst, err := strconv.Atoi(read("StartLimitBurst", strconv.Itoa(defaultBurst)))
	if err != nil || burst < 0 {
		s.lose("StartLimitBurst is lost: it is not a number")
		burst = defaultBurst
	}
	if interval <= 0 || burst == 0 || time.Duration(burst)*delay >= interval {
		return // systemd never gives up
	}
	s.Restart.GiveUpAfter = new(v1.Count(max(burst-1, 1)))
	s.Restart.ResetAfter = new(v1.Duration((interval / time.Duration(burst)).Round(time.Millisecond)))
}

// readiness converts when a start has succeeded, and the watchdog.
func (s *serviceDraft) readiness() {
	kind := firstOf(s.get("Type"), "simple")
	limit := s.startLimit(defaultStartTimeout)
	within := wholeSeconds(limit)
	if (limit <= 0 || limit > longestStart) && kind != "oneshot" {
		s.lose("TimeoutStartSec=%s: drover waits at most an hour", s.get("TimeoutStartSec"))
		within = wholeSeconds(longestStart)
	}
	switch kind {
	case "notify", "notify-reload":
		s.Ready = &v1.Ready{Notify: true, Within: within, OnTimeout: "stop"}
	case "forking":
		if s.Timeouts == nil {
			s.Timeouts = &v1.Timeouts{}
		}
		s.Timeouts.Start = within
	case "dbus":
		s.lose("Type=dbus: drover does not wait until the process has its name on the bus")
		s.used["BusName"] = true
	}
	s.used["NotifyAccess"] = true
	if d := s.timeSpan("WatchdogSec", 0); d > 0 {
		s.Health = &v1.Health{Watchdog: true, Every: wholeSeconds(d), Failures: new(1), Action: "restart"}
	}
	if d := s.timeSpan("RuntimeMaxSec", 0); d > 0 {
		if s.Once || s.timer != nil {
			s.TimeLimit = new(v1.Duration(d))
		} else {
			s.lose("RuntimeMaxSec=%s is lost: only a process that runs once or by a timetable has a time_limit", s.get("RuntimeMaxSec"))
		}
	}
	if s.Once && limit > 0 && s.get("TimeoutStartSec") != "" {
		s.TimeLimit = new(v1.Duration(limit)) // the run of a oneshot is its start
	}
}

// timetable converts the timer of the service.
func (s *serviceDraft) timetable() {
	t := s.timer
	if t == nil {
		return
	}
	s.Once = false
	plan := &v1.Schedule{}
	for _, line := range t.list("Timer", "OnCalendar") {
		rule, zone, why := cron(t.expand(line))
		switch {
		case why != "":
			s.lose("OnCalendar=%s of %s is lost: %s", line, t.name, why)
		case plan.Cron != "":
			s.lose("OnCalendar=%s of %s is lost: a process has one timetable", line, t.name)
		default:
			plan.Cron, plan.TimeZone = rule, zone
		}
	}
	for _, key := range []string{"OnUnitActiveSec", "OnUnitInactiveSec", "OnBootSec", "OnStartupSec", "OnActiveSec"} {
		text := t.last("Timer", key)
		if text == "" {
			continue
		}
		d, err := span(text)
		if err != nil || d <= 0 || !strings.HasPrefix(key, "OnUnit") || plan.Cron != "" || plan.Every != nil {
			s.lose("%s=%s of %s is lost", key, text, t.name)
			continue
		}
		plan.Every = wholeSeconds(d)
		if key == "OnUnitInactiveSec" {
			s.lose("%s=%s of %s: drover counts from begin to begin", key, text, t.name)
		}
	}
	if plan.Cron == "" && plan.Every == nil {
		s.Once = true
		s.lose("%s is lost: nothing starts the process by itself", t.name)
		return
	}
	if yes(t.last("Timer", "Persistent")) {
		plan.Missed = "run-once"
	}
	if d, err := span(t.last("Timer", "RandomizedDelaySec")); err == nil && d > 0 {
		plan.Jitter = wholeSeconds(d)
	}
	for _, key := range []string{"WakeSystem", "OnClockChange", "OnTimezoneChange"} {
		if yes(t.last("Timer", key)) {
			s.lose("%s of %s is lost", key, t.name)
		}
	}
	s.Schedule = plan
}

// rest makes a comment of each setting that no step has read.
func (s *serviceDraft) rest() {
	lost := map[string][]string{}
	for _, set := range s.unit.settings {
		why := lossOf(set)
		if why == "" || set.value == "" || set.section == "Service" && s.used[set.key] ||
			set.section == "Unit" && s.used[set.key] {
			continue
		}
		text := set.key + "=" + s.unit.expand(set.value)
		if !slices.Contains(lost[why], text) {
			lost[why] = append(lost[why], text)
		}
	}
	for _, why := range losses() {
		if len(lost[why.text]) > 0 {
			s.lose("%s is lost: %s", strings.Join(lost[why.text], ", "), why.text)
		}
	}
}
