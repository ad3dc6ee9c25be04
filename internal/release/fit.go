package release

import (
	"fmt"
	"strconv"
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
}

// Fits returns nil if a host may run a package, else the reason.
func (p *Package) Fits(h Host) error {
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

// Compare compares two versions part by part: numbers by their value, and other parts as texts. A part after "-" or "~"
// makes a version earlier than the same version without it. A "+" ends the comparison.
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
		nx, errX := strconv.ParseUint(x, 10, 64)
		ny, errY := strconv.ParseUint(y, 10, 64)
		switch {
		case errX == nil && errY == nil && nx < ny, (errX != nil || errY != nil) && x < y:
			return -1
		case errX == nil && errY == nil && nx > ny, (errX != nil || errY != nil) && x > y:
			return 1
		}
	}
	return 0
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
