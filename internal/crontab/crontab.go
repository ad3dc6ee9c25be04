// Package crontab reads crontab rules and computes when they are due. It owns the syntax, the time zones and the
// meaning of a rule on days when clocks change. It knows nothing of processes and waits for nothing. A library parses
// the single fields and computes times in a calendar without zones; this package decides about hours that a zone
// skips or repeats.
package crontab

import (
	"errors"
	"fmt"
	"strings"
	"time"
	_ "time/tzdata" // many hosts have no zone database of their own, and a rule must mean the same on all of them

	"github.com/netresearch/go-cron"
)

// maxRule is the longest rule that is read, in bytes.
const maxRule = 512

// Rule is a rule that has been read. Its zero value never comes due. It may be copied and used concurrently.
//
// A rule that names every hour is due at each of its minutes, whatever the clock shows: none is lost in spring, and
// both passes through the hour that autumn repeats count. Any other rule is due once at each time of day that it names:
// at the first of two passes, and where the time is left out, at the moment of the change instead (once, however many
// times fall into the gap).
type Rule struct {
	calendar cron.Schedule
	zone     *time.Location
	hourly   bool
}

// Parse reads five fields (minute, hour, day of month, month, day of week; with names, lists, ranges and steps) or one
// of @hourly, @daily, @midnight, @weekly, @monthly, @yearly and @annually, after an optional CRON_TZ=Zone or TZ=Zone. A
// zone that is not nil is meant for a rule that names none; without either it is the host's. The error tells all that
// is wrong, without repeating the rule. Where both a day of month and a day of week are given, either will do, as ever.
func Parse(text string, zone *time.Location) (Rule, error) {
	if len(text) > maxRule {
		return Rule{}, fmt.Errorf("is %d bytes long: expected at most %d", len(text), maxRule)
	}
	fields := strings.Fields(text)
	zone, fields, err := prefixed(zone, fields)
	faults := []error{err}
	if len(fields) == 1 && strings.HasPrefix(fields[0], "@") {
		expanded, ok := nicknames()[strings.ToLower(fields[0])]
		if !ok {
			return Rule{},
				joined(append(faults,
					fmt.Errorf("%.40q is unknown: expected @hourly, @daily, @weekly, @monthly, @yearly or five fields",
						fields[0])))
		}
		fields = strings.Fields(expanded)
	}
	if len(fields) != len(columns()) {
		many := "s"
		if len(fields) == 1 {
			many = ""
		}
		return Rule{},
			joined(append(faults,
				fmt.Errorf("has %d field%s: expected five (minute, hour, day of month, month, day of week)",
					len(fields), many)))
	}
	parser, err := newParser()
	if err != nil {
		return Rule{}, err
	}
	for i, c := range columns() {
		faults = append(faults, c.check(parser, i, fields[i]))
	}
	if err := joined(faults); err != nil {
		return Rule{}, err
	}
	calendar, err := parser.Parse(strings.Join(fields, " "))
	if err != nil {
		return Rule{}, fmt.Errorf("cannot be read: %w", err)
	}
	if anyYear := time.Date(2000, time.January, 1, 0, 0, 0, 0, time.UTC); calendar.Next(anyYear).IsZero() {
		return Rule{}, errors.New("never comes due: expected days that their months have")
	}
	return Rule{calendar: calendar, zone: zone, hourly: everyHour(calendar)}, nil
}

// ParseIn is Parse with the name of a zone; empty stands for no zone.
func ParseIn(text, zone string) (Rule, error) {
	if zone == "" {
		return Parse(text, nil)
	}
	in, err := Zone(zone)
	if err != nil {
		return Rule{}, err
	}
	return Parse(text, in)
}

// joined tells all faults in one sentence; nil when there is none.
func joined(faults []error) error {
	var texts []string
	for _, err := range faults {
		if err != nil {
			texts = append(texts, err.Error())
		}
	}
	if len(texts) == 0 {
		return nil
	}
	return errors.New(strings.Join(texts, ", "))
}

// prefixed takes the zone off the front of a rule.
func prefixed(zone *time.Location, fields []string) (*time.Location, []string, error) {
	if len(fields) > 0 {
		for _, prefix := range []string{"CRON_TZ=", "TZ="} {
			name, ok := strings.CutPrefix(fields[0], prefix)
			if !ok {
				continue
			}
			own, err := Zone(name)
			if err == nil && zone != nil && zone.String() != own.String() {
				err = fmt.Errorf("names the zone %s although the time zone is set to %s", own, zone)
			}
			return own, fields[1:], err
		}
	}
	if zone == nil {
		zone = time.Local
	}
	return zone, fields, nil
}

// Zone returns a zone of the IANA database, such as "Asia/Shanghai" or "UTC".
func Zone(name string) (*time.Location, error) {
	const longest = 64
	strange := func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("/_+-", r)
	}
	if name != "" && name != "Local" && len(name) <= longest && strings.IndexFunc(name, strange) < 0 {
		if zone, err := time.LoadLocation(name); err == nil {
			return zone, nil
		}
	}
	return nil,
		fmt.Errorf("%.70q is not a time zone: expected a name of the IANA database, such as Asia/Shanghai or UTC", name)
}

func nicknames() map[string]string {
	return map[string]string{
		"@hourly":   "0 * * * *",
		"@daily":    "0 0 * * *",
		"@midnight": "0 0 * * *",
		"@weekly":   "0 0 * * 0",
		"@monthly":  "0 0 1 * *",
		"@yearly":   "0 0 1 1 *",
		"@annually": "0 0 1 1 *",
	}
}

// column is one of the fields of a rule.
type column struct{ name, expected string }

func columns() []column {
	return []column{
		{"minute", "0 to 59"},
		{"hour", "0 to 23"},
		{"day of month", "1 to 31"},
		{"month", "1 to 12 or jan to dec"},
		{"day of week", "0 to 7 or sun to sat"},
	}
}

// check reports what is wrong with the field, which is the i-th.
func (c column) check(parser cron.Parser, i int, text string) error {
	alone := []string{"*", "*", "*", "*", "*"}
	alone[i] = text
	if plain(text) {
		if _, err := parser.Parse(strings.Join(alone, " ")); err == nil {
			return nil
		}
	}
	return fmt.Errorf("%s %.40q: expected %s, with * for all, lists 1,2, ranges 1-5 and steps */2", c.name, text,
		c.expected)
}

// plain reports whether a field holds nothing but what crontab(5) knows: the library is more generous.
func plain(text string) bool {
	for part := range strings.SplitSeq(text, ",") {
		if part == "" {
			return false
		}
	}
	return strings.IndexFunc(text, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("*,-/", r)
	}) < 0
}

// leapYears is how far apart the 29ths of February are at most, and a year more.
const leapYears = 9

func newParser() (cron.Parser, error) {
	parser, err := cron.TryNewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow | cron.DowOrDom)
	if err != nil {
		return cron.Parser{}, fmt.Errorf("cannot read rules: %w", err)
	}
	return parser.WithMaxSearchYears(leapYears), nil
}

// everyHour reports whether no hour is left out.
func everyHour(calendar cron.Schedule) bool {
	const all = 1<<24 - 1
	spec, ok := calendar.(*cron.SpecSchedule)
	return ok && spec.Hour&all == all
}
