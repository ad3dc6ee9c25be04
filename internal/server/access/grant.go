package access

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"drover/internal/selector"
	"drover/internal/wildcard"
)

// MaxGrants is the largest number of grants of an app, maxParts the largest number of parts in one list of a grant,
// maxPattern the longest part in bytes.
const (
	MaxGrants  = 100
	maxParts   = 100
	maxPattern = 255
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
	// Areas are cloud areas; Hosts are patterns of "area:ip" or of a stable agent id; Labels are labels of hosts, as
	// "key=value". A host in one of the lists is enough. All empty: every host.
	Areas  []int    `json:"areas,omitempty"`
	Hosts  []string `json:"hosts,omitempty"`
	Labels []string `json:"labels,omitempty"`
}

// namespacesOf returns the namespaces of a business: the namespaces for callers of JOB, and the namespace of the
// process configuration manager.
func namespacesOf(business int64) []string {
	id := strconv.FormatInt(business, 10)
	return []string{"job:biz:" + id, "GSEKIT_BIZ_" + id}
}

// Validate reports the first error in the grant, and names the field.
func (g *Grant) Validate() error {
	switch {
	case len(g.Operations) == 0:
		return errors.New("operations is empty: expected " + knownOperations())
	case len(g.Namespaces)+len(g.Businesses) == 0:
		return errors.New("namespaces and businesses are empty: expected a pattern such as GSEKIT_BIZ_*, or * for all")
	}
	for i, op := range g.Operations {
		if Members(op) == nil && !slices.Contains(Operations(), Operation(op)) {
			return fmt.Errorf("operations[%d] is %.40q: expected %s", i, op, knownOperations())
		}
	}
	for i, b := range g.Businesses {
		if b <= 0 {
			return fmt.Errorf("businesses[%d] is %d: expected a positive business id", i, b)
		}
	}
	for i, a := range g.Areas {
		if a < 0 {
			return fmt.Errorf("areas[%d] is %d: expected 0 or more", i, a)
		}
	}
	if err := checkPatterns("namespaces", g.Namespaces); err != nil {
		return err
	}
	if err := checkPatterns("hosts", g.Hosts); err != nil {
		return err
	}
	for i, label := range g.Labels {
		if err := checkLabel(label); err != nil {
			return fmt.Errorf("labels[%d]: %w", i, err)
		}
	}
	for field, n := range map[string]int{
		"operations": len(g.Operations), "businesses": len(g.Businesses),
		"areas": len(g.Areas), "labels": len(g.Labels),
	} {
		if n > maxParts {
			return fmt.Errorf("%s has %d parts: expected at most %d", field, n, maxParts)
		}
	}
	return nil
}

// checkLabel rejects a text that is not one label with its value. A fact is not a label: a host says its facts itself.
func checkLabel(text string) error {
	key, value, found := strings.Cut(text, "=")
	switch {
	case !found || value == "":
		return fmt.Errorf("%.80q is not a label with a value: expected KEY=VALUE", text)
	case selector.Reserved(key):
		return fmt.Errorf("%.80q is a fact of the host, and facts grant no rights: expected a label", key)
	}
	return cmp.Or(selector.CheckKey(key), selector.CheckValue(key, value))
}

func checkPatterns(field string, patterns []string) error {
	if len(patterns) > maxParts {
		return fmt.Errorf("%s has %d parts: expected at most %d", field, len(patterns), maxParts)
	}
	for i, p := range patterns {
		switch {
		case p == "":
			return fmt.Errorf("%s[%d] is empty", field, i)
		case len(p) > maxPattern:
			return fmt.Errorf("%s[%d] is %d bytes long: expected at most %d", field, i, len(p), maxPattern)
		case !utf8.ValidString(p) || strings.ContainsFunc(p, unicode.IsControl):
			return fmt.Errorf("%s[%d] holds a control character or is not valid UTF-8", field, i)
		}
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

func (g *Grant) onHost(h Host) bool {
	return g.everywhere() || slices.Contains(g.Areas, h.Area) || slices.ContainsFunc(g.Hosts, func(p string) bool {
		return h.IP != "" && wildcard.Match(p, h.Address()) || h.ID != "" && wildcard.Match(p, h.ID) || h.Alias != "" &&
			wildcard.Match(p, h.Alias)
	}) || slices.ContainsFunc(g.Labels, func(label string) bool {
		key, wanted, _ := strings.Cut(label, "=")
		value, found, _ := h.Labels.Get(key)
		return found && value == wanted
	})
}

// The words of a grant as text, and the marks of the parts that are not patterns.
const (
	onWord       = "on"
	atWord       = "at"
	businessMark = "biz:"
	areaMark     = "area:"
	labelMark    = "label:"
)

// ParseGrant reads a grant: OPERATIONS on NAMESPACES [at HOSTS], each a list with commas. A business is written biz:7
// among the namespaces, an area area:3 and a label label:role=web among the hosts. Examples: "* on *", "read,restart on
// biz:7", "operate on GSEKIT_BIZ_* at area:0,1:10.2.*", "operate on shop at label:role=web". The result is valid.
func ParseGrant(text string) (Grant, error) {
	words := strings.Fields(text)
	if len(words) != 3 && len(words) != 5 || words[1] != onWord || len(words) == 5 && words[3] != atWord {
		return Grant{},
			fmt.Errorf(`grant is %.80q: expected "OPERATIONS on NAMESPACES" or "OPERATIONS on NAMESPACES at HOSTS"`,
				text)
	}
	g := Grant{Operations: strings.Split(words[0], ",")}
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
	if len(words) == 5 {
		for part := range strings.SplitSeq(words[4], ",") {
			if id, ok := strings.CutPrefix(part, areaMark); ok {
				n, err := strconv.Atoi(id)
				if err != nil {
					return Grant{}, fmt.Errorf("area %.40q is not a number", id)
				}
				g.Areas = append(g.Areas, n)
				continue
			}
			if label, ok := strings.CutPrefix(part, labelMark); ok {
				g.Labels = append(g.Labels, label)
				continue
			}
			g.Hosts = append(g.Hosts, part)
		}
	}
	if err := g.Validate(); err != nil {
		return Grant{}, err
	}
	return g, nil
}

// String returns the grant in the form of ParseGrant, if no pattern holds a blank or a comma.
func (g Grant) String() string {
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
		hosts = append(hosts, labelMark+label)
	}
	text := strings.Join(g.Operations, ",") + " " + onWord + " " + strings.Join(scopes, ",")
	if len(hosts) > 0 {
		text += " " + atWord + " " + strings.Join(hosts, ",")
	}
	return text
}
