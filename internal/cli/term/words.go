package term

import (
	"fmt"
	"regexp"
	"strings"
	"time"
	"unicode"

	"drover/internal/why"
)

// Since is the age of a moment; empty if there is no moment.
func Since(t *time.Time) string {
	if t == nil {
		return ""
	}
	return why.Age(time.Since(*t))
}

// Stamp is a moment in the local zone; empty if there is no moment.
func Stamp(t *time.Time) string {
	if t == nil {
		return ""
	}
	return stamp(t.Local())
}

// StampIn is Stamp in a time zone by its name; an unknown or empty name is the local zone.
func StampIn(t *time.Time, zone string) string {
	if place, err := time.LoadLocation(zone); t != nil && zone != "" && err == nil {
		return stamp(t.In(place))
	}
	return Stamp(t)
}

// The forms of a stamp: without an offset, and with one.
const (
	stampZone   = time.DateTime + " MST"
	stampOffset = time.DateTime + " -07:00"
)

// stamp names the zone by its offset: CST is China, Central America and Cuba.
func stamp(t time.Time) string {
	if _, offset := t.Zone(); offset == 0 {
		return t.Format(stampZone)
	}
	return t.Format(stampOffset)
}

// Local is a text with the times of agents and servers, such as 2026-11-20T22:00:00Z, in the local zone.
func Local(text string) string { return timesIn(text, time.Local) }

func timesIn(text string, zone *time.Location) string {
	return writtenTime.ReplaceAllStringFunc(text, func(written string) string {
		at, err := time.Parse(time.RFC3339, written)
		if err != nil {
			return written
		}
		return stamp(at.In(zone))
	})
}

var writtenTime = regexp.MustCompile(`\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z\b`)

// Size is bytes in the unit that suits them.
func Size(bytes int64) string {
	value, unit := float64(bytes), "B"
	for _, next := range []string{"KiB", "MiB", "GiB", "TiB"} {
		if value < 1024 {
			break
		}
		value, unit = value/1024, next
	}
	if unit == "B" {
		return fmt.Sprintf("%d B", bytes)
	}
	return fmt.Sprintf("%.1f %s", value, unit)
}

// Percent is a share with one decimal.
func Percent(p float64) string { return fmt.Sprintf("%.1f%%", p) }

// YesNo is yes or no.
func YesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// Printable replaces characters that could control a terminal: names and messages come from hosts and callers.
func Printable(s string) string {
	s = strings.ToValidUTF8(s, "?")
	if !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return s
	}
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return ' '
		case !unicode.IsPrint(r):
			return '?'
		default:
			return r
		}
	}, s)
}

// ShellWord quotes a text for a shell if necessary.
func ShellWord(text string) string {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/:._-@%+="
	if text != "" && strings.Trim(text, plain) == "" {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

// Doer is the caller of an operation, and why a server began the operation by itself; reason is empty if it did not.
func Doer(app, user, reason string) string {
	if reason == "" {
		return Caller(app, user)
	}
	return Caller(app, user) + " (" + reason + ")"
}

// Caller is the caller: app and user. A person without an app has an app of the same name.
func Caller(app, user string) string {
	switch {
	case app == "", app == "person:"+user:
		return user
	case user == "":
		return app
	default:
		return user + " through " + app
	}
}
