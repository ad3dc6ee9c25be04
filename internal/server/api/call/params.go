package call

import (
	"net/url"
	"slices"
	"strconv"
	"time"

	"drover/internal/process"
	"drover/internal/selector"
	"drover/internal/wildcard"
)

// Number returns the whole number of a parameter, which must be between least and most; 0 if the parameter is missing.
func (p *Params) Number(name string, least, most int) int {
	v := p.Text(name)
	if v == "" {
		return 0
	}
	n, err := strconv.Atoi(v)
	if err != nil || n < least || n > most {
		p.Fail(Invalid(name, "is %.40q: expected %d to %d", v, least, most))
		return 0
	}
	return n
}

// The bounds of a filter, because each pattern is compared with every host or every process.
const (
	maxValue     = 2048
	MostPatterns = 32
)

// Params reads the query of a call. It records the parameters that the endpoint reads, so that Done can reject a
// misspelt filter.
type Params struct {
	Values url.Values
	Read   map[string]bool
	Fault  error
	// cursors seals places in the list that the call returns.
	cursors *cursors
	listed  string
}

// Fail notes a fault of a parameter, which Done returns.
func (p *Params) Fail(err error) { p.Fault = Together(p.Fault, err) }

// List returns all values of a parameter.
func (p *Params) List(name string) []string {
	p.Read[name] = true
	patterns := 0
	for _, v := range p.Values[name] {
		if len(v) > maxValue {
			p.Fail(Invalid(name, "is %d bytes long: expected at most %d", len(v), maxValue))
		}
		if wildcard.IsPattern(v) {
			patterns++
		}
	}
	if patterns > MostPatterns {
		p.Fail(Invalid(name, "has %d patterns: expected at most %d", patterns, MostPatterns))
	}
	return p.Values[name]
}

// Text returns the value of a parameter; empty if the parameter is missing.
func (p *Params) Text(name string) string {
	values := p.List(name)
	if len(values) == 0 {
		return ""
	}
	if len(values) > 1 {
		p.Fail(Invalid(name, "is given %d times: expected once", len(values)))
	}
	return values[0]
}

// Choice returns the value of a parameter that must be one of the given words; empty if the parameter is missing.
func (p *Params) Choice(name string, of ...string) string {
	v := p.Text(name)
	if v != "" && !slices.Contains(of, v) {
		p.Fail(Invalid(name, "is %.40q: expected %s", v, process.OrList(of)))
	}
	return v
}

// Flag returns the boolean of a parameter; nil if the parameter is missing.
func (p *Params) Flag(name string) *bool {
	v := p.Choice(name, "true", "false")
	if v == "" {
		return nil
	}
	yes := v == "true"
	return &yes
}

// Limit returns the size of the page.
func (p *Params) Limit() int {
	v := p.Text("limit")
	if v == "" {
		return DefaultPage
	}
	n, err := strconv.Atoi(v)
	if err != nil || n < 1 || n > MaxPage {
		p.Fail(Invalid("limit", "is %.40q: expected 1 to %d", v, MaxPage))
	}
	return n
}

// Wait returns how long a call may wait, given in seconds.
func (p *Params) Wait() time.Duration {
	v := p.Text("wait")
	if v == "" {
		return 0
	}
	seconds, err := strconv.ParseFloat(v, 64)
	if err != nil || !(seconds >= 0 && seconds <= maxWait.Seconds()) { // rejects NaN too
		p.Fail(Invalid("wait", "is %.40q: expected 0 to %.0f seconds", v, maxWait.Seconds()))
		return 0
	}
	return time.Duration(seconds * float64(time.Second))
}

// Time returns the time of a parameter in RFC 3339; the zero time if the parameter is missing.
func (p *Params) Time(name string) time.Time {
	v := p.Text(name)
	if v == "" {
		return time.Time{}
	}
	t, err := time.Parse(time.RFC3339, v)
	if err != nil {
		p.Fail(Invalid(name, "is %.40q: expected a time such as 2026-11-20T10:30:00Z", v))
	}
	return t
}

// Cursor reads the end of the previous page into at. On the first page it does not change at.
func (p *Params) Cursor(at any) {
	v := p.Text("cursor")
	if v == "" {
		return
	}
	if err := p.cursors.open(p.listed, v, at); err != nil {
		p.Fail(Invalid("cursor", "%v", err))
	}
}

// Page reads the size of the page, and the end of the previous page into at. It must be the last read of a parameter.
func (p *Params) Page(at any) (limit int, err error) {
	limit = p.Limit()
	p.Cursor(at)
	return limit, p.Done()
}

// Done returns the first fault, or the fault that a parameter is unknown. Call it after all parameters were read.
func (p *Params) Done() error {
	var unknown []string
	for name := range p.Values {
		if !p.Read[name] {
			unknown = append(unknown, name)
		}
	}
	slices.Sort(unknown)
	for _, name := range unknown {
		p.Fail(Invalid(name, "there is no such parameter"))
	}
	return p.Fault
}

// Selector returns the expression of a parameter; the zero selector if the parameter is missing.
func (p *Params) Selector(name string) selector.Selector {
	text := p.Text(name)
	if !p.Values.Has(name) {
		return selector.Selector{}
	}
	s, err := selector.Parse(text)
	if err != nil {
		p.Fail(Invalid(name, "%v", err))
	}
	return s
}

// Given reports whether a parameter is present.
func (p *Params) Given(name string) bool { return p.Values.Has(name) }
