package spec

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Duration is a length of time: 500ms, 10s, 5m, 1h30m or 30d. A day has 24 hours.
type Duration time.Duration

const (
	day = 24 * time.Hour
	// mostDays bounds a Duration: it is shorter than one day more.
	mostDays = 1<<15 - 1
)

// ParseDuration reads a Duration of zero or more. A number without a unit is an error, except 0.
func ParseDuration(text string) (Duration, error) {
	wrong := fmt.Errorf("%q is not a duration: expected a value such as 500ms, 10s, 5m, 1h30m or 30d", text)
	long := fmt.Errorf("%q is too long: expected at most %dd", text, mostDays)
	rest, total := text, time.Duration(0)
	if days, tail, ok := strings.Cut(text, "d"); ok {
		n, err := strconv.ParseUint(days, 10, 15)
		switch {
		case errors.Is(err, strconv.ErrRange):
			return 0, long
		case err != nil:
			return 0, wrong
		}
		rest, total = tail, time.Duration(n)*day
	}
	if rest != "" || text == "" {
		d, err := time.ParseDuration(rest)
		switch {
		case err != nil || d < 0 || d%time.Millisecond != 0:
			return 0, wrong
		case d >= (mostDays+1)*day-total:
			return 0, long
		}
		total += d
	}
	return Duration(total), nil
}

// String is the shortest text that ParseDuration reads as d.
func (d Duration) String() string {
	rest := time.Duration(d)
	var text strings.Builder
	for _, unit := range []struct {
		size time.Duration
		name string
	}{{day, "d"}, {time.Hour, "h"}, {time.Minute, "m"}} {
		if n := rest / unit.size; n > 0 {
			fmt.Fprintf(&text, "%d%s", n, unit.name)
			rest %= unit.size
		}
	}
	if rest > 0 || text.Len() == 0 {
		text.WriteString(rest.String())
	}
	return text.String()
}

// MarshalText encodes d as its String.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads what ParseDuration reads.
func (d *Duration) UnmarshalText(text []byte) (err error) {
	*d, err = ParseDuration(string(text))
	return err
}

// Size is a number of bytes: 512KiB, 64MiB, 2GiB or a plain number.
type Size int64

// sizeUnits are the units of a Size, largest first.
func sizeUnits() []struct {
	name  string
	bytes int64
} {
	return []struct {
		name  string
		bytes int64
	}{{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}}
}

// ParseSize reads a Size of zero or more.
func ParseSize(text string) (Size, error) {
	number, unit := text, int64(1)
	for _, u := range sizeUnits() {
		if n, ok := strings.CutSuffix(text, u.name); ok {
			number, unit = strings.TrimRight(n, " "), u.bytes
			break
		}
	}
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n < 0 || n > math.MaxInt64/unit {
		return 0, fmt.Errorf("%q is not a size: expected a number of bytes, or a value such as 512KiB, 64MiB or 2GiB", text)
	}
	return Size(n * unit), nil
}

// String is the Size in the largest unit that divides it, or the number of bytes.
func (s Size) String() string {
	for _, u := range sizeUnits() {
		if s > 0 && int64(s)%u.bytes == 0 {
			return strconv.FormatInt(int64(s)/u.bytes, 10) + u.name
		}
	}
	return strconv.FormatInt(int64(s), 10)
}

// MarshalJSON encodes s as a number if it has no unit, else as its String.
func (s Size) MarshalJSON() ([]byte, error) { return scalar(s.String()) }

// UnmarshalJSON reads a number of bytes or what ParseSize reads.
func (s *Size) UnmarshalJSON(data []byte) (err error) {
	*s, err = ParseSize(unquoted(data))
	return err
}

// Unlimited is a LimitSize or a LimitNumber without a bound.
const Unlimited = -1

// infinity is the text of Unlimited.
const infinity = "infinity"

// LimitSize is a limit of the kernel in bytes: a Size or infinity.
type LimitSize int64

// ParseLimitSize reads a Size, or "infinity".
func ParseLimitSize(text string) (LimitSize, error) {
	if text == infinity {
		return Unlimited, nil
	}
	s, err := ParseSize(text)
	if err != nil {
		err = fmt.Errorf("%q is not a limit: expected a number of bytes, a value such as 512KiB, 64MiB or 2GiB, or infinity",
			text)
	}
	return LimitSize(s), err
}

// String is the Size, or "infinity".
func (l LimitSize) String() string {
	if l == Unlimited {
		return infinity
	}
	return Size(l).String()
}

// MarshalJSON encodes l as a number if it has no unit, else as its String.
func (l LimitSize) MarshalJSON() ([]byte, error) { return scalar(l.String()) }

// UnmarshalJSON reads a number of bytes or what ParseLimitSize reads.
func (l *LimitSize) UnmarshalJSON(data []byte) (err error) {
	*l, err = ParseLimitSize(unquoted(data))
	return err
}

// LimitNumber is a limit of the kernel: a number or infinity.
type LimitNumber int64

// ParseLimitNumber reads a LimitNumber of zero or more, or "infinity".
func ParseLimitNumber(text string) (LimitNumber, error) {
	if text == infinity {
		return Unlimited, nil
	}
	n, err := strconv.ParseUint(text, 10, 63)
	if err != nil {
		return 0, fmt.Errorf("%q is not a limit: expected a number or infinity", text)
	}
	return LimitNumber(n), nil //nolint:gosec // 63 bits
}

// String is the number, or "infinity".
func (l LimitNumber) String() string {
	if l == Unlimited {
		return infinity
	}
	return strconv.FormatInt(int64(l), 10)
}

// MarshalJSON encodes l as a number, or as "infinity".
func (l LimitNumber) MarshalJSON() ([]byte, error) { return scalar(l.String()) }

// UnmarshalJSON reads a number or "infinity".
func (l *LimitNumber) UnmarshalJSON(data []byte) (err error) {
	*l, err = ParseLimitNumber(unquoted(data))
	return err
}

// Percent is a share in percent: 80 or 80%.
type Percent float64

// ParsePercent reads a Percent of zero or more.
func ParsePercent(text string) (Percent, error) {
	n, err := strconv.ParseFloat(strings.TrimSuffix(text, "%"), 64)
	if err != nil || n < 0 || math.IsInf(n, 0) || math.IsNaN(n) {
		return 0, fmt.Errorf("%q is not a percentage: expected a value such as 80%% or 150%%", text)
	}
	return Percent(n), nil
}

// String is the percentage with its sign.
func (p Percent) String() string { return strconv.FormatFloat(float64(p), 'f', -1, 64) + "%" }

// MarshalJSON encodes p as its String.
func (p Percent) MarshalJSON() ([]byte, error) { return json.Marshal(p.String()) }

// UnmarshalJSON reads a number or what ParsePercent reads.
func (p *Percent) UnmarshalJSON(data []byte) (err error) {
	*p, err = ParsePercent(unquoted(data))
	return err
}

// Count is a number of times, or NeverGiveUp.
type Count int

// NeverGiveUp is the Count of what has no limit.
const NeverGiveUp Count = -1

// ParseCount reads a Count of zero or more, or "never".
func ParseCount(text string) (Count, error) {
	if text == "never" {
		return NeverGiveUp, nil
	}
	n, err := strconv.ParseUint(text, 10, 31)
	if err != nil {
		return 0, fmt.Errorf("%q is not a count: expected a number or never", text)
	}
	return Count(n), nil
}

// String is the number, or "never".
func (c Count) String() string {
	if c == NeverGiveUp {
		return "never"
	}
	return strconv.Itoa(int(c))
}

// MarshalJSON encodes c as a number, or as "never".
func (c Count) MarshalJSON() ([]byte, error) { return scalar(c.String()) }

// UnmarshalJSON reads a number or "never".
func (c *Count) UnmarshalJSON(data []byte) (err error) {
	*c, err = ParseCount(unquoted(data))
	return err
}

// HostCount is a number of hosts: 20, or a share of all hosts such as 10%.
type HostCount struct{ Number, Percent int }

// mostHosts is the largest Number of a HostCount.
const mostHosts = 1_000_000

// ParseHostCount reads a HostCount of zero or more.
func ParseHostCount(text string) (HostCount, error) {
	number, percent := strings.CutSuffix(text, "%")
	n, err := strconv.ParseUint(number, 10, 31)
	switch {
	case err == nil && percent && n > 100:
		return HostCount{}, fmt.Errorf("%.40q is above 100%%: expected a share such as 10%%", text)
	case err != nil || n > mostHosts:
		return HostCount{}, fmt.Errorf("%.40q is not a number of hosts: expected a value such as 20, or a share such as 10%%",
			text)
	case percent:
		return HostCount{Percent: int(n)}, nil
	default:
		return HostCount{Number: int(n)}, nil
	}
}

// Of returns the number of hosts out of total, rounded down.
func (c HostCount) Of(total int) int {
	if c.Number > 0 {
		return c.Number
	}
	return total * c.Percent / 100
}

// IsZero reports whether c is no host.
func (c HostCount) IsZero() bool { return c == HostCount{} }

// String is the number, or the share with its sign.
func (c HostCount) String() string {
	if c.Percent > 0 {
		return strconv.Itoa(c.Percent) + "%"
	}
	return strconv.Itoa(c.Number)
}

// MarshalJSON encodes c as a number, or as its String.
func (c HostCount) MarshalJSON() ([]byte, error) { return scalar(c.String()) }

// UnmarshalJSON reads a number or what ParseHostCount reads.
func (c *HostCount) UnmarshalJSON(data []byte) (err error) {
	*c, err = ParseHostCount(unquoted(data))
	return err
}

// scalar encodes a text as a number if it is one.
func scalar(text string) ([]byte, error) {
	if _, err := strconv.ParseInt(text, 10, 64); err == nil {
		return []byte(text), nil
	}
	return json.Marshal(text)
}

// unquoted returns the text of a JSON string, and of every other value its JSON.
func unquoted(data []byte) string {
	var text string
	if len(data) > 0 && data[0] == '"' && json.Unmarshal(data, &text) == nil {
		return text
	}
	return string(data)
}

// Status is how a process ends: an exit code, or the name of a signal without SIG.
type Status string

// UnmarshalText reads an exit code from 0 to 255, or the name of a signal with or without SIG.
func (s *Status) UnmarshalText(text []byte) error {
	if code, err := strconv.Atoi(string(text)); err == nil && code >= 0 && code <= 255 {
		*s = Status(strconv.Itoa(code))
		return nil
	}
	name, err := SignalName(string(text))
	if err != nil {
		return fmt.Errorf("%q is neither an exit code from 0 to 255 nor a signal", text)
	}
	*s = Status(name)
	return nil
}

// MarshalJSON encodes an exit code as a number and a signal as its name.
func (s Status) MarshalJSON() ([]byte, error) { return scalar(string(s)) }

// UnmarshalJSON reads a number or what UnmarshalText reads.
func (s *Status) UnmarshalJSON(data []byte) error { return s.UnmarshalText([]byte(unquoted(data))) }

// SignalName returns the name of a signal without SIG and in capitals, as Signals has it. It reads every name, such as
// "sigterm" or "RTMIN+20".
func SignalName(text string) (string, error) {
	name := strings.TrimPrefix(strings.ToUpper(text), "SIG")
	switch name { // two names of one signal
	case "IOT":
		name = "ABRT"
	case "POLL":
		name = "IO"
	case "CLD":
		name = "CHLD"
	}
	if known := signalNames()[name]; known != "" {
		return known, nil
	}
	if known := signalNames()[realtimeName(name)]; known != "" {
		return known, nil
	}
	return "", fmt.Errorf("%q is not a signal: expected a name such as TERM, INT or USR1", text)
}

// signalNames are the names of Signals. A lookup costs no memory: reports may hold long lists of signals.
//
//nolint:gochecknoglobals // it never changes
var signalNames = sync.OnceValue(func() map[string]string {
	all := map[string]string{}
	for _, name := range Signals() {
		all[name] = name
	}
	return all
})

// realtimeName returns the name that RealtimeSignals has for RTMIN+n or RTMAX-n, and every other text as it is.
func realtimeName(name string) string {
	if !strings.HasPrefix(name, "RT") {
		return name
	}
	all := RealtimeSignals()
	if rest, ok := strings.CutPrefix(name, "RTMIN+"); ok {
		if n, err := strconv.ParseUint(rest, 10, 8); err == nil && int(n) < len(all) {
			return all[n]
		}
	}
	if rest, ok := strings.CutPrefix(name, "RTMAX-"); ok {
		if n, err := strconv.ParseUint(rest, 10, 8); err == nil && int(n) < len(all) {
			return all[len(all)-1-int(n)]
		}
	}
	return name
}

// standardSignals are the names of the signals before the real-time signals, in the order of their numbers.
const standardSignals = "HUP INT QUIT ILL TRAP ABRT BUS FPE KILL USR1 SEGV USR2 PIPE ALRM TERM STKFLT CHLD CONT STOP " +
	"TSTP TTIN TTOU URG XCPU XFSZ VTALRM PROF WINCH IO PWR SYS"

// Signals returns the names of the signals of Linux, in the order of their numbers on most architectures (signal(7)).
func Signals() []string { return append(strings.Fields(standardSignals), RealtimeSignals()...) }

// RealtimeSignals returns the names of the real-time signals in the order of their numbers, as kill(1) names them: the
// lower half after the first of glibc (34), the upper half before the last (64).
func RealtimeSignals() []string {
	const above, below = 15, 14
	all := []string{"RTMIN"}
	for n := 1; n <= above; n++ {
		all = append(all, "RTMIN+"+strconv.Itoa(n))
	}
	for n := below; n >= 1; n-- {
		all = append(all, "RTMAX-"+strconv.Itoa(n))
	}
	return append(all, "RTMAX")
}

// StopSignal is one step of a stop: the signal, and the time until the next step. Wait is 0 after the last one.
type StopSignal struct {
	Signal string
	Wait   Duration
}

// UnmarshalText reads "SIGNAL" or "SIGNAL DURATION".
func (s *StopSignal) UnmarshalText(text []byte) (err error) {
	name, wait, timed := strings.Cut(string(text), " ")
	if s.Signal, err = SignalName(name); err != nil || !timed {
		return err
	}
	s.Wait, err = ParseDuration(strings.TrimSpace(wait))
	return err
}

// MarshalText encodes s as UnmarshalText reads it.
func (s StopSignal) MarshalText() ([]byte, error) {
	if s.Wait == 0 {
		return []byte(s.Signal), nil
	}
	return []byte(s.Signal + " " + s.Wait.String()), nil
}

// Reload is a command line or a signal.
type Reload struct {
	Command string
	Signal  string
}

// MarshalJSON encodes a command as a string and a signal as {"signal": …}.
func (r Reload) MarshalJSON() ([]byte, error) {
	if r.Signal == "" {
		return json.Marshal(r.Command)
	}
	return json.Marshal(map[string]string{"signal": r.Signal})
}

// UnmarshalJSON reads what MarshalJSON writes.
func (r *Reload) UnmarshalJSON(data []byte) error {
	if json.Unmarshal(data, &r.Command) == nil {
		return nil
	}
	var by struct{ Signal string }
	err := json.Unmarshal(data, &by)
	if err == nil {
		r.Signal, err = SignalName(by.Signal)
	}
	return err
}

// Hosts chooses hosts: by their names, or by an expression. In JSON it is a list of names, or {"select": EXPRESSION}.
type Hosts struct {
	// Names are host ids, CLOUD:IP, or patterns.
	Names []string
	// Select is an expression about labels and facts, such as "role=web,zone!=b"; empty if there are names.
	Select string
}

// bySelector is the other form of Hosts in JSON.
type bySelector struct {
	Select string `json:"select"`
}

// IsZero reports whether h chooses nothing.
func (h Hosts) IsZero() bool { return len(h.Names) == 0 && h.Select == "" }

// MarshalJSON encodes h in one of its two forms.
func (h Hosts) MarshalJSON() ([]byte, error) {
	if h.Select != "" {
		return json.Marshal(bySelector{h.Select})
	}
	return json.Marshal(h.Names)
}

// UnmarshalJSON reads both forms.
func (h *Hosts) UnmarshalJSON(data []byte) error {
	if len(data) > 0 && data[0] == '{' {
		d := json.NewDecoder(bytes.NewReader(data))
		d.DisallowUnknownFields()
		var by bySelector
		err := d.Decode(&by)
		*h = Hosts{Select: by.Select}
		return err
	}
	*h = Hosts{}
	return json.Unmarshal(data, &h.Names)
}
