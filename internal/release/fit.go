package release

import (
	"cmp"
	"fmt"
	"strings"
	"time"
)

// Host is what a package has to fit.
type Host struct {
	Arch string
	// Format is the layout of the host's files.
	Format int
	// Version is what runs there, or empty if it has no order, such as a build of a developer.
	Version string
	// Signed is when the package that runs there was signed, in Unix seconds; 0 without a package.
	Signed int64
	// Now is the time of the host.
	Now time.Time
}

// latest is how far the clocks of a host and of the signer may be apart. A signature of a later time would keep out all
// versions that are signed before that.
const latest = 24 * time.Hour

// Dated returns an error if the package was signed in the future.
func (p *Package) Dated(now time.Time) error {
	if at := time.Unix(p.Signed, 0); at.After(now.Add(latest)) {
		return fmt.Errorf("version %s was signed %s, and here it is %s: correct the clock of the machine that signs, and sign anew",
			p.Version, date(p.Signed), date(now.Unix()))
	}
	return nil
}

// Fits returns nil if a host may run a package, else the reason.
func (p *Package) Fits(h Host) error {
	if err := p.Dated(h.Now); err != nil {
		return err
	}
	switch {
	case p.Arch != h.Arch:
		return fmt.Errorf("version %s is for %s, and this host is %s", p.Version, p.Arch, h.Arch)
	case p.Format < h.Format:
		return fmt.Errorf("version %s knows record formats up to %d, and the files of this host have %d", p.Version,
			p.Format, h.Format)
	case p.Signed < h.Signed:
		return fmt.Errorf("version %s was signed %s, before the version that runs here (%s): sign it anew", p.Version,
			date(p.Signed), date(h.Signed))
	case h.Version != "" && Compare(p.Version, h.Version) < 0 && !p.Downgrade:
		return fmt.Errorf("version %s is below %s, which runs here, and was not signed as a downgrade", p.Version, h.Version)
	}
	return nil
}

func date(seconds int64) string { return time.Unix(seconds, 0).UTC().Format(time.RFC3339) }

// Compare compares two versions part by part: digits by the value of their number, and other characters as texts. A
// part after "-" or "~" makes a version earlier than the same version without it. A "+" ends the comparison.
func Compare(a, b string) int {
	a, b = strings.TrimPrefix(a, "v"), strings.TrimPrefix(b, "v")
	a, _, _ = strings.Cut(a, "+")
	b, _, _ = strings.Cut(b, "+")
	mainA, earlyA, hasA := cutEarly(a)
	mainB, earlyB, hasB := cutEarly(b)
	if c := compareParts(mainA, mainB); c != 0 {
		return c
	}
	switch {
	case hasA && !hasB:
		return -1
	case hasB && !hasA:
		return 1
	}
	return compareParts(earlyA, earlyB)
}

func cutEarly(text string) (main, early string, has bool) {
	if at := strings.IndexAny(text, "-~"); at >= 0 {
		return text[:at], text[at+1:], true
	}
	return text, "", false
}

func compareParts(a, b string) int {
	as, bs := strings.Split(a, "."), strings.Split(b, ".")
	for i := range max(len(as), len(bs)) {
		x, y := "0", "0"
		if i < len(as) {
			x = as[i]
		}
		if i < len(bs) {
			y = bs[i]
		}
		if c := compareRuns(x, y); c != 0 {
			return c
		}
	}
	return 0
}

// compareRuns compares two parts: by turns a run of other characters, as text, and a run of digits, as a number.
func compareRuns(a, b string) int {
	for a != "" || b != "" {
		var x, y string
		x, a = cutRun(a, false)
		y, b = cutRun(b, false)
		if c := strings.Compare(x, y); c != 0 {
			return c
		}
		x, a = cutRun(a, true)
		y, b = cutRun(b, true)
		x, y = strings.TrimLeft(x, "0"), strings.TrimLeft(y, "0")
		if c := cmp.Or(cmp.Compare(len(x), len(y)), strings.Compare(x, y)); c != 0 {
			return c
		}
	}
	return 0
}

// cutRun cuts the digits, or the other characters, at the beginning of a text.
func cutRun(text string, digits bool) (run, rest string) {
	end := strings.IndexFunc(text, func(r rune) bool { return (r >= '0' && r <= '9') != digits })
	if end < 0 {
		end = len(text)
	}
	return text[:end], text[end:]
}

// Ordered returns a version that has an order, or empty for a text that has none.
func Ordered(build string) string {
	build = strings.TrimPrefix(build, "v")
	// What Go calls a commit between releases begins so.
	if CheckVersion(build) != nil || strings.HasPrefix(build, "0.0.0-") || !strings.Contains(build, ".") {
		return ""
	}
	return build
}
