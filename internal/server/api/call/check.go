package call

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"drover/internal/crontab"
	"drover/internal/server/edge"
)

// CheckName rejects a name that cannot be typed or shown.
func CheckName(field, name string, longest int) error {
	switch {
	case name == "":
		return Invalid(field, "is empty")
	case len(name) > longest:
		return Invalid(field, "is %d bytes long: expected at most %d", len(name), longest)
	case strings.ToValidUTF8(name, "") != name ||
		strings.ContainsFunc(name, func(r rune) bool { return unicode.IsControl(r) || unicode.IsSpace(r) }):
		return Invalid(field, "holds a blank or a control character, or is not valid UTF-8")
	}
	return nil
}

// Plain reports whether a text has only ASCII letters, digits and the given marks.
func Plain(text, marks string) bool {
	return !strings.ContainsFunc(text, func(c rune) bool {
		return (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && !strings.ContainsRune(marks, c)
	})
}

// CheckLength rejects a text that is too long.
func CheckLength(field, text string, most int) error {
	if len(text) > most {
		return Invalid(field, "is %d bytes long: expected at most %d", len(text), most)
	}
	return nil
}

const (
	maxPatterns = 100
	maxPattern  = 256
)

// CheckPatterns reports the first invalid pattern of a list.
func CheckPatterns(field string, patterns []string) error {
	if n := len(patterns); n > maxPatterns {
		return Invalid(field, "has %d entries: expected at most %d", n, maxPatterns)
	}
	for _, pattern := range patterns {
		if err := CheckName(field, pattern, maxPattern); err != nil {
			return err
		}
	}
	return nil
}

// OneOf lists words for an error message.
func OneOf[T ~string](words []T) string { return strings.Join(AsTexts(words), ", ") }

// AsTexts returns words as texts; nil for none.
func AsTexts[T ~string](words []T) (texts []string) {
	for _, w := range words {
		texts = append(texts, string(w))
	}
	return texts
}

// Decimal writes a number as people do, without an exponent.
func Decimal(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }

// CheckProcesses reports the patterns that are not NAMESPACE/NAME.
func CheckProcesses(field string, patterns []string) error {
	if err := CheckPatterns(field, patterns); err != nil {
		return err
	}
	var faults []error
	for i, p := range patterns {
		if namespace, name, found := strings.Cut(p, "/"); !found || namespace == "" || name == "" {
			faults = append(faults, Invalid(fmt.Sprintf("%s[%d]", field, i),
				"is %q: expected NAMESPACE/NAME, such as shop/*", edge.Clip(p)))
		}
	}
	return Together(faults...)
}

// Timetable reads a crontab rule and its time zone.
func Timetable(cron, zone string) (crontab.Rule, error) {
	var faults []error
	if zone != "" {
		if _, err := crontab.Zone(zone); err != nil {
			faults, zone = append(faults, Invalid("time_zone", "%v", err)), ""
		}
	}
	rule, err := crontab.ParseIn(cron, zone)
	switch {
	case cron == "":
		faults = append(faults, Invalid("cron", "is missing: expected five fields, such as 0 3 * * *"))
	case err != nil:
		faults = append(faults, Invalid("cron", "%v", err))
	}
	return rule, Together(faults...)
}

// CheckHosts reports the first host without a name, and an empty list: for a program that has found nothing it must not
// stand for every host.
func CheckHosts(field string, hosts []string) error {
	if hosts != nil && len(hosts) == 0 {
		return Invalid(field, "is empty: expected hosts, or no such list")
	}
	if i := slices.Index(hosts, ""); i >= 0 {
		return Invalid(fmt.Sprintf("%s[%d]", field, i), "is empty")
	}
	return nil
}
