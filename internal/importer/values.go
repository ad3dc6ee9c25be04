package importer

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "drover/api/v1"
	"drover/internal/process"
	"drover/internal/spec"
)

// code reads a number of a character.
func code(digits string, base int) (rune, bool) {
	n, err := strconv.ParseUint(digits, base, 21)
	return rune(n), err == nil && n != 0 //nolint:gosec // 21 bits
}

// infinite is a time span or a number without an end.
const infinite = "infinity"

// spanUnits are the units of systemd.time(7).
func spanUnits() map[string]time.Duration {
	units := map[string]time.Duration{}
	for size, names := range map[time.Duration]string{
		time.Microsecond: "usec us µs", time.Millisecond: "msec ms", time.Second: "seconds second sec s",
		time.Minute: "minutes minute min m", time.Hour: "hours hour hr h", 24 * time.Hour: "days day d",
		7 * 24 * time.Hour: "weeks week w", 2629800 * time.Second: "months month M",
		31557600 * time.Second: "years year y",
	} {
		for name := range strings.FieldsSeq(names) {
			units[name] = size
		}
	}
	return units
}

// span reads a time span, such as "1min 30s" or "90". Infinity is -1.
func span(text string) (time.Duration, error) {
	if text == infinite {
		return -1, nil
	}
	total, rest := 0.0, strings.TrimSpace(text)
	wrong := fmt.Errorf("%q is not a time span", text)
	for rest != "" {
		n := strings.IndexFunc(rest, func(r rune) bool { return (r < '0' || r > '9') && r != '.' })
		if n < 0 {
			n = len(rest)
		}
		number, err := strconv.ParseFloat(rest[:n], 64)
		if err != nil {
			return 0, wrong
		}
		rest = strings.TrimLeft(rest[n:], " ")
		n = strings.IndexAny(rest, " 0123456789")
		if n < 0 {
			n = len(rest)
		}
		unit, ok := spanUnits()[rest[:n]]
		if rest[:n] == "" {
			unit, ok = time.Second, true
		}
		if !ok {
			return 0, wrong
		}
		total += number * float64(unit)
		rest = strings.TrimLeft(rest[n:], " ")
	}
	if text == "" || total > math.MaxInt64/2 {
		return 0, wrong
	}
	return time.Duration(total).Round(time.Millisecond), nil
}

// wholeSeconds rounds up, to at least one second.
func wholeSeconds(d time.Duration) *v1.Duration {
	n := max((d+time.Second-1)/time.Second, 1)
	return new(v1.Duration(n * time.Second))
}

// size reads a number of bytes with a unit of 1024, such as 512M.
func size(text string) (int64, error) {
	number, unit := strings.TrimSpace(text), int64(1)
	number = strings.TrimSuffix(number, "B")
	if n := len(number); n > 0 {
		if i := strings.IndexByte("KMGTPE", number[n-1]&^0x20); i >= 0 {
			number, unit = strings.TrimSpace(number[:n-1]), 1<<(10*(i+1))
		}
	}
	f, err := strconv.ParseFloat(number, 64)
	if err != nil || f < 0 || f*float64(unit) > math.MaxInt64/2 {
		return 0, fmt.Errorf("%q is not a size", text)
	}
	return int64(f * float64(unit)), nil
}

// yes reads a truth value.
func yes(text string) bool {
	return slices.Contains([]string{"1", "yes", "y", "true", "t", "on"}, strings.ToLower(text))
}

// statuses reads exit codes, their names and signals. It returns what is none of them as unknown.
func statuses(words []string) (all []v1.Status, unknown []string) {
	for _, w := range words {
		var s v1.Status
		if n, ok := exitCode(w); ok {
			w = strconv.Itoa(n)
		}
		if err := s.UnmarshalText([]byte(w)); err != nil {
			unknown = append(unknown, w)
			continue
		}
		if !slices.Contains(all, s) {
			all = append(all, s)
		}
	}
	return all, unknown
}

// exitCode returns the number of a name of sysexits.h, as in systemd.exec(5).
func exitCode(name string) (int, bool) {
	const first = 64
	names := strings.Fields("USAGE DATAERR NOINPUT NOUSER NOHOST UNAVAILABLE SOFTWARE OSERR OSFILE CANTCREAT IOERR " +
		"TEMPFAIL PROTOCOL NOPERM CONFIG")
	i := slices.Index(names, name)
	return first + i, i >= 0
}

// signal returns the name of a signal without SIG.
func signal(text string) (string, error) {
	if n, err := strconv.Atoi(text); err == nil {
		text = firstOf(process.SignalName(n), text)
	}
	return spec.SignalName(text)
}
