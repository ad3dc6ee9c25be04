package access

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"drover/internal/process"
	"drover/internal/selector"
	"drover/internal/spelling"
	"drover/internal/wildcard"
)

// MaxGrants is the largest number of grants of an app, maxParts the largest number of parts in one list of a grant,
// maxPattern the longest part in bytes, and mostTargets the largest limit of targets.
const (
	MaxGrants  = 100
	maxParts   = 100
	maxPattern = 255

	mostTargets = 1_000_000
)

// Grant lets an app do the operations on processes of the namespaces or businesses, in the areas or on the hosts. In
// patterns "*" matches any text, even an empty text, and "?" matches one character. A pattern must match the whole
// text, letter by letter.
type Grant struct {
	// Operations are names of operations or groups.
	Operations []string `json:"operations"`
	// Namespaces are patterns; Businesses are CMDB business ids. One of the two lists must not be empty.
	Namespaces []string `json:"namespaces,omitempty"`
	Businesses []int64  `json:"businesses,omitempty"`
	// Areas are cloud areas; Hosts are patterns of "area:ip" or of a stable agent id; Labels are expressions of
	// selector.ParseGranting. A host in one of the lists is enough. All empty: every host.
	Areas  []int    `json:"areas,omitempty"`
	Hosts  []string `json:"hosts,omitempty"`
	Labels []string `json:"labels,omitempty"`
	// Until is the time from which the grant gives nothing; zero means never.
	Until time.Time `json:"until,omitzero"`
	// MaxTargets is the largest number of targets, each a process on a host, of a call that the grant allows. Calls
	// that only read have no limit. 0 means no limit.
	MaxTargets int `json:"max_targets,omitempty"`
}

// Ended reports whether the grant gives nothing any more.
func (g *Grant) Ended(now time.Time) bool { return !g.Until.IsZero() && !now.Before(g.Until) }

// InForce returns the grants that have not ended.
func InForce(grants []Grant, now time.Time) []Grant {
	return slices.DeleteFunc(slices.Clone(grants), func(g Grant) bool { return g.Ended(now) })
}

// sameScope reports whether two grants differ at most in their ends and limits.
func (g *Grant) sameScope(other *Grant) bool { return g.scope() == other.scope() }

// outlasts reports whether the grant ends no earlier than another one of the same scope, and has no smaller limit.
func (g *Grant) outlasts(other *Grant) bool {
	later := g.Until.IsZero() || !other.Until.IsZero() && !g.Until.Before(other.Until)
	larger := g.MaxTargets == 0 || other.MaxTargets != 0 && g.MaxTargets >= other.MaxTargets
	return later && larger
}

// With returns the grants and one more. The new grant takes the place of those that it makes superfluous; nothing
// changes if one of them makes the new grant superfluous.
func With(grants []Grant, g Grant) []Grant {
	if slices.ContainsFunc(grants, func(have Grant) bool { return have.sameScope(&g) && have.outlasts(&g) }) {
		return grants
	}
	kept := slices.DeleteFunc(slices.Clone(grants), func(have Grant) bool {
		return have.sameScope(&g) && g.outlasts(&have)
	})
	return append(kept, g)
}

// Without returns the grants without those that a text describes. A text without an end and a limit describes each
// grant of its scope, unless one has exactly this text. removed is false if there is none.
func Without(grants []Grant, text string) (kept []Grant, removed bool) {
	is := func(g Grant) bool { return g.Is(text) }
	if !slices.ContainsFunc(grants, is) {
		is = func(g Grant) bool {
			g.Until, g.MaxTargets = time.Time{}, 0
			return g.Is(text)
		}
	}
	kept = slices.DeleteFunc(slices.Clone(grants), is)
	return kept, len(kept) < len(grants)
}

// namespacesOf returns the namespaces of a business: the namespaces for callers of JOB, and the namespace of the
// process configuration manager.
func namespacesOf(business int64) []string {
	id := strconv.FormatInt(business, 10)
	return []string{"job:biz:" + id, "GSEKIT_BIZ_" + id}
}

// Validate reports the first error in the grant, and names the field.
func (g *Grant) Validate() error {
	if faults := g.Faults(); len(faults) > 0 {
		return faults[0]
	}
	return nil
}

// Faults returns the errors in the grant, at most one of each list. Each begins with the name of the field.
func (g *Grant) Faults() (faults []error) {
	fail := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	list := func(field string, n int, faulty func(i int) error) {
		if n > maxParts {
			fail("%s has %d parts: expected at most %d", field, n, maxParts)
			return
		}
		for i := range n {
			if err := faulty(i); err != nil {
				faults = append(faults, err)
				return
			}
		}
	}
	if len(g.Operations) == 0 {
		fail("operations is empty: expected %s", knownOperations())
	}
	if len(g.Namespaces)+len(g.Businesses) == 0 {
		fail("namespaces and businesses are empty: expected a pattern such as GSEKIT_BIZ_*, or * for all")
	}
	if slices.Contains(g.Operations, Auditor) && (!slices.Contains(g.Namespaces, All) || !g.everywhere()) {
		fail("operations has %s, which needs all namespaces and hosts: expected %q", Auditor, Auditor+" on *")
	}
	for _, op := range g.Operations {
		switch op := Operation(op); {
		case (op == RenameAgents || op == LabelAgents || op == UpgradeAgents) && !slices.Contains(g.Namespaces, All):
			fail("operations has %s, which is about hosts and gives nothing without all namespaces: expected %q", op,
				string(op)+" on *")
		case op == Silence && !g.everywhere():
			fail("operations has %s, which gives nothing on some hosts only: expected %q", op,
				string(op)+" on NAMESPACES")
		}
	}
	list("operations", len(g.Operations), g.operationFault)
	list("businesses", len(g.Businesses), func(i int) error {
		if b := g.Businesses[i]; b <= 0 {
			return fmt.Errorf("businesses[%d] is %d: expected a positive business id", i, b)
		}
		return nil
	})
	list("areas", len(g.Areas), func(i int) error {
		if a := g.Areas[i]; a < 0 {
			return fmt.Errorf("areas[%d] is %d: expected 0 or more", i, a)
		}
		return nil
	})
	list("namespaces", len(g.Namespaces), func(i int) error { return patternFault("namespaces", i, g.Namespaces[i]) })
	list("hosts", len(g.Hosts), func(i int) error { return hostFault(i, g.Hosts[i]) })
	list("labels", len(g.Labels), func(i int) error {
		if _, err := selector.ParseGranting(g.Labels[i]); err != nil {
			return fmt.Errorf("labels[%d] is %.80q: %w", i, g.Labels[i], err)
		}
		return nil
	})
	if g.MaxTargets < 0 || g.MaxTargets > mostTargets {
		fail("max_targets is %d: expected 1 to %d, or 0 for no limit", g.MaxTargets, mostTargets)
	}
	return faults
}

func (g *Grant) operationFault(i int) error {
	op := g.Operations[i]
	if !isKnown(op) {
		return fmt.Errorf("operations[%d] is %.40q: expected %s", i, op, knownOperations())
	}
	return nil
}

// isKnown reports whether a text is an operation, or a group of them.
func isKnown(op string) bool {
	return Members(op) != nil || slices.Contains(Operations(), Operation(op))
}

// unknownRight is the error of a text that is no operation: it names those that the text may mean.
func unknownRight(op string) error {
	names := Groups()
	for _, known := range Operations() {
		names = append(names, string(known))
	}
	if near := spelling.Nearest(op, names); len(op) > 1 && len(near) > 0 {
		return fmt.Errorf("no right is called %.40q, did you mean %s?", op, process.OrList(near))
	}
	return fmt.Errorf("no right is called %.40q: expected %s, or an operation such as restart", op,
		strings.Join([]string{Viewer, Operator, Maintainer, Auditor, All}, ", "))
}

// notInHosts are the characters of conditions. A pattern of hosts with one of them is a condition without its label
// mark, and would grant on other hosts than its author meant.
const notInHosts = "=!() \t"

func hostFault(i int, p string) error {
	if strings.ContainsAny(p, notInHosts) {
		return fmt.Errorf("hosts[%d] is %.80q: expected a pattern of host names, or a condition such as label:role=web,"+
			"zone!=b, which needs label: before its first term", i, p)
	}
	return patternFault("hosts", i, p)
}

func patternFault(field string, i int, p string) error {
	switch {
	case p == "":
		return fmt.Errorf("%s[%d] is empty", field, i)
	case len(p) > maxPattern:
		return fmt.Errorf("%s[%d] is %d bytes long: expected at most %d", field, i, len(p), maxPattern)
	case !utf8.ValidString(p) || strings.ContainsFunc(p, unicode.IsControl):
		return fmt.Errorf("%s[%d] holds a control character or is not valid UTF-8", field, i)
	}
	return nil
}

func knownOperations() string {
	names := Groups()
	for _, op := range Operations() {
		names = append(names, string(op))
	}
	return "one of " + strings.Join(names, ", ")
}

func (g *Grant) allows(op Operation) bool {
	return slices.ContainsFunc(g.Operations, func(name string) bool {
		return name == string(op) || slices.Contains(Members(name), op)
	})
}

func (g *Grant) inScope(namespace string) bool {
	return slices.ContainsFunc(g.Namespaces, func(p string) bool { return wildcard.Match(p, namespace) }) ||
		slices.ContainsFunc(g.Businesses, func(b int64) bool { return slices.Contains(namespacesOf(b), namespace) })
}

func (g *Grant) everywhere() bool {
	return len(g.Areas)+len(g.Hosts)+len(g.Labels) == 0 || slices.Contains(g.Hosts, All)
}

// granted is a grant with its expressions of labels.
type granted struct {
	*Grant
	labels []selector.Selector
}

// compiled returns the grant with its expressions. An invalid expression selects nothing.
func (g *Grant) compiled() granted {
	c := granted{Grant: g, labels: make([]selector.Selector, len(g.Labels))}
	for i, text := range g.Labels {
		c.labels[i], _ = selector.ParseGranting(text)
	}
	return c
}

func (g *granted) onHost(h Host) bool {
	return g.everywhere() || slices.Contains(g.Areas, h.Area) || slices.ContainsFunc(g.Hosts, func(p string) bool {
		return h.IP != "" && wildcard.Match(p, h.Address()) || h.ID != "" && wildcard.Match(p, h.ID) || h.Alias != "" &&
			wildcard.Match(p, h.Alias)
	}) || slices.ContainsFunc(g.labels, func(s selector.Selector) bool {
		return s.Matches(func(key string) (string, bool) {
			value, found, _ := h.Labels.Get(key)
			return value, found
		})
	})
}

// The words of a grant as text, and the marks of the parts that are not patterns.
const (
	onWord       = "on"
	atWord       = "at"
	untilWord    = "until"
	targetsWord  = "max-targets"
	businessMark = "biz:"
	areaMark     = "area:"
	labelMark    = "label:"
)

// ParseGrant reads a grant: OPERATIONS on NAMESPACES [at HOSTS], each a list with commas. A business is written biz:7
// among the namespaces and an area area:3 among the hosts. "label:" begins an expression, which goes to the next
// "label:" or "area:", or to the end; so patterns of hosts stand before it. Examples: "* on *", "read,restart on biz:7",
// "operate on GSEKIT_BIZ_* at area:0,1:10.2.*", "operate on shop at web-*,label:role=web,zone!=b". Behind all this may
// stand an end and a limit, such as "until 2026-11-20T18:00:00Z max-targets 200". The result is valid.
func ParseGrant(text string) (Grant, error) {
	words := strings.Fields(text)
	var g Grant
	words, err := g.readBounds(words)
	if err != nil {
		return Grant{}, err
	}
	if len(words) != 3 && len(words) < 5 || words[1] != onWord || len(words) >= 5 && words[3] != atWord {
		return Grant{},
			fmt.Errorf(`grant is %.80q: expected "OPERATIONS on NAMESPACES" or "OPERATIONS on NAMESPACES at HOSTS"`,
				text)
	}
	g.Operations = strings.Split(words[0], ",")
	for part := range strings.SplitSeq(words[2], ",") {
		if id, ok := strings.CutPrefix(part, businessMark); ok {
			n, err := strconv.ParseInt(id, 10, 64)
			if err != nil {
				return Grant{}, fmt.Errorf("business %.40q is not a number", id)
			}
			g.Businesses = append(g.Businesses, n)
			continue
		}
		g.Namespaces = append(g.Namespaces, part)
	}
	for _, op := range g.Operations {
		if !isKnown(op) {
			return Grant{}, unknownRight(op)
		}
	}
	if len(words) >= 5 {
		if err := g.readHosts(strings.Join(words[4:], " ")); err != nil {
			return Grant{}, err
		}
	}
	if faults := g.Faults(); len(faults) > 0 {
		texts := make([]string, len(faults))
		for i, err := range faults {
			texts[i] = err.Error()
		}
		return Grant{}, errors.New(strings.Join(texts, "; "))
	}
	for i := range g.Labels {
		g.Labels[i] = shortest(g.Labels[i])
	}
	return g, nil
}

// readBounds reads the end and the limit behind a grant, and returns the words before them.
func (g *Grant) readBounds(words []string) ([]string, error) {
	for len(words) >= 5 {
		value := words[len(words)-1]
		switch word := words[len(words)-2]; {
		case word == untilWord && g.Until.IsZero():
			at, err := time.Parse(time.RFC3339, value)
			if err != nil {
				return nil, fmt.Errorf("%s is %.40q: expected a time such as 2026-11-20T18:00:00Z", untilWord, value)
			}
			g.Until = wholeSecond(at)
		case word == targetsWord && g.MaxTargets == 0:
			n, err := strconv.Atoi(value)
			if err != nil || n <= 0 {
				return nil, fmt.Errorf("%s is %.40q: expected 1 to %d", targetsWord, value, mostTargets)
			}
			g.MaxTargets = n
		default:
			return words, nil
		}
		words = words[:len(words)-2]
	}
	return words, nil
}

// wholeSecond is a time as the text of a grant holds it.
func wholeSecond(t time.Time) time.Time { return t.UTC().Truncate(time.Second) }

// readHosts reads the list of hosts of a grant.
func (g *Grant) readHosts(list string) error {
	labelled := false // the last part belongs to an expression of labels
	for part := range strings.SplitSeq(list, ",") {
		if id, ok := strings.CutPrefix(part, areaMark); ok {
			n, err := strconv.Atoi(id)
			if err != nil {
				return fmt.Errorf("area %.40q is not a number", id)
			}
			g.Areas = append(g.Areas, n)
			labelled = false
			continue
		}
		label, begins := strings.CutPrefix(strings.TrimLeft(part, " "), labelMark)
		switch {
		case begins:
			g.Labels = append(g.Labels, label)
			labelled = true
		case labelled:
			g.Labels[len(g.Labels)-1] += "," + part
		default:
			g.Hosts = append(g.Hosts, part)
		}
	}
	return nil
}

// shortest returns an expression in its shortest form, and an invalid one as it is.
func shortest(label string) string {
	if s, err := selector.ParseGranting(label); err == nil {
		return s.String()
	}
	return label
}

// Is reports whether a text describes the grant. The grant may be one of an earlier version, which ParseGrant rejects.
func (g Grant) Is(text string) bool {
	if given, err := ParseGrant(text); err == nil {
		text = given.String()
	}
	return g.String() == strings.Join(strings.Fields(text), " ")
}

// String returns the grant in the form of ParseGrant, if no pattern holds a blank or a comma.
func (g Grant) String() string {
	text := g.scope()
	if !g.Until.IsZero() {
		text += " " + untilWord + " " + wholeSecond(g.Until).Format(time.RFC3339)
	}
	if g.MaxTargets != 0 {
		text += " " + targetsWord + " " + strconv.Itoa(g.MaxTargets)
	}
	return text
}

// scope is the text of the grant without its end and its limit.
func (g *Grant) scope() string {
	scopes := slices.Clone(g.Namespaces)
	for _, b := range g.Businesses {
		scopes = append(scopes, businessMark+strconv.FormatInt(b, 10))
	}
	var hosts []string
	for _, a := range g.Areas {
		hosts = append(hosts, areaMark+strconv.Itoa(a))
	}
	hosts = append(hosts, g.Hosts...)
	for _, label := range g.Labels {
		hosts = append(hosts, labelMark+shortest(label))
	}
	text := strings.Join(g.Operations, ",") + " " + onWord + " " + strings.Join(scopes, ",")
	if len(hosts) > 0 {
		text += " " + atWord + " " + strings.Join(hosts, ",")
	}
	return text
}
