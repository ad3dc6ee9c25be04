package importer

import (
	"regexp"
	"strconv"
	"strings"
)

var (
	timeOfDay = regexp.MustCompile(`^[0-9*.,/]+:[0-9*.,/]+(:[0-9*.,/]+)?$`)
	dateOf    = regexp.MustCompile(`^([0-9*.,/]+-)?[0-9*.,/]+-[0-9*.,/]+$`)
	weekdays  = regexp.MustCompile(`^[A-Za-z]{3,9}((,|\.\.|-)[A-Za-z]{3,9})*,?$`)
	numeric   = regexp.MustCompile(`^[0-9]+$`)
)

// shorthands are the names of systemd.time(7) as crontab rules.
func shorthands() map[string]string {
	return map[string]string{
		"minutely": "* * * * *", "hourly": "0 * * * *", "daily": "0 0 * * *", "weekly": "0 0 * * 1",
		"monthly": "0 0 1 * *", "yearly": "0 0 1 1 *", "annually": "0 0 1 1 *", "quarterly": "0 0 1 1,4,7,10 *",
		"semiannually": "0 0 1 1,7 *",
	}
}

// cron converts a calendar expression of systemd.time(7) to a crontab rule with its time zone. why says what no rule
// can say.
func cron(text string) (rule, zone, why string) {
	fields := strings.Fields(text)
	if n := len(fields); n > 1 && (fields[n-1] == "UTC" || strings.Contains(fields[n-1], "/") && !timeOfDay.MatchString(fields[n-1]) && !dateOf.MatchString(fields[n-1])) {
		fields, zone = fields[:n-1], fields[n-1]
	}
	if len(fields) == 1 {
		if rule, ok := shorthands()[strings.ToLower(fields[0])]; ok {
			return rule, zone, ""
		}
	}
	days, date, clock := "*", "*-*", "00:00"
	for _, f := range fields {
		switch {
		case timeOfDay.MatchString(f):
			clock = f
		case dateOf.MatchString(f):
			date = f
		case weekdays.MatchString(f):
			days = f
		default:
			return "", "", "drover cannot read its part " + strconv.Quote(f)
		}
	}
	parts := strings.Split(clock, ":")
	if len(parts) == 3 && strings.Trim(parts[2], "0") != "" {
		return "", "", "a timetable of drover has no seconds"
	}
	dates := strings.Split(date, "-")
	if len(dates) == 3 {
		if dates[0] != "*" {
			return "", "", "a timetable of drover has no years"
		}
		dates = dates[1:]
	}
	week, ok := weekdayNumbers(days)
	if !ok {
		return "", "", "drover cannot read its days of the week"
	}
	if week != "*" && dates[1] != "*" {
		return "", "", "a timetable of drover cannot demand a day of the week and a day of the month at once"
	}
	all := []string{
		cronField(parts[1], 59), cronField(parts[0], 23), cronField(dates[1], 31), cronField(dates[0], 12), week,
	}
	return strings.Join(all, " "), zone, ""
}

// cronField converts a list of values, ranges and repetitions.
func cronField(text string, last int) string {
	var all []string
	for item := range strings.SplitSeq(text, ",") {
		value, step, repeated := strings.Cut(item, "/")
		value = strings.ReplaceAll(value, "..", "-")
		if numeric.MatchString(value) {
			value = trimZeros(value)
		}
		first, end, ranged := strings.Cut(value, "-")
		if ranged {
			value = trimZeros(first) + "-" + trimZeros(end)
		}
		if repeated {
			switch {
			case value == "0" || value == "*":
				value = "*"
			case !ranged:
				value += "-" + strconv.Itoa(last)
			}
			value += "/" + trimZeros(step)
		}
		all = append(all, value)
	}
	return strings.Join(all, ",")
}

func trimZeros(text string) string {
	if short := strings.TrimLeft(text, "0"); short != "" {
		return short
	}
	return "0"
}

// weekdayNumbers converts Mon..Fri or Sat,Sun.
func weekdayNumbers(text string) (string, bool) {
	if text == "*" {
		return text, true
	}
	const names = "sunmontuewedthufrisat"
	number := func(name string) (string, bool) {
		if len(name) < 3 {
			return "", false
		}
		i := strings.Index(names, strings.ToLower(name[:3]))
		return strconv.Itoa(i / 3), i >= 0 && i%3 == 0
	}
	var all []string
	for item := range strings.SplitSeq(strings.Trim(text, ","), ",") {
		first, last, ranged := strings.Cut(strings.ReplaceAll(item, "..", "-"), "-")
		from, ok := number(first)
		if !ok {
			return "", false
		}
		if ranged {
			to, ok := number(last)
			if !ok {
				return "", false
			}
			if to == "0" {
				to = "7"
			}
			from += "-" + to
		}
		all = append(all, from)
	}
	return strings.Join(all, ","), true
}
