package selector_test

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"drover/internal/selector"
)

func lookup(labels map[string]string) selector.Lookup {
	return func(key string) (string, bool) {
		value, found := labels[key]
		return value, found
	}
}

func TestIsKey(t *testing.T) {
	for text, want := range map[string]bool{
		"role": true, "os_version": true, "fact.rack": true, "example.com/tier": true,
		"": false, "role=web": false, "!role": false, "a,b": false, " role": false,
	} {
		if got := selector.IsKey(text); got != want {
			t.Errorf("%q is a key: %t", text, got)
		}
	}
}

func TestMatches(t *testing.T) {
	web := map[string]string{"role": "web", "zone": "a", "os": "debian", "empty": "", "example.com/tier": "1"}
	for text, want := range map[string]bool{
		"role=web":                               true,
		"role==web":                              true,
		" role = web , zone != b ":               true,
		"role=web,zone!=b,os in (debian,ubuntu)": true,
		"role=web,zone!=a":                       false,
		"role=db":                                false,
		"role!=db":                               true,
		"rack!=1":                                true, // also without the label
		"rack=1":                                 false,
		"os in (debian)":                         true,
		"os in ( ubuntu , rhel )":                false,
		"os notin (ubuntu,rhel)":                 true,
		"os notin (ubuntu,debian)":               false,
		"rack notin (1,2)":                       true,
		"rack in (1,2)":                          false,
		"role":                                   true,
		"empty":                                  true,
		"rack":                                   false,
		"!rack":                                  true,
		"! rack,role":                            true,
		"!role":                                  false,
		"example.com/tier=1":                     true,
		"in in (in),role":                        false, // in is a key, too
		"role\tin\n(web)":                        true,
		"os in (debian,debian),os_version notin(9)": true,
	} {
		s, err := selector.Parse(text)
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		if got := s.Matches(lookup(web)); got != want {
			t.Errorf("%q matches: %v", text, got)
		}
	}
	if (selector.Selector{}).Matches(lookup(web)) {
		t.Error("a selector without a term selects")
	}
}

func TestString(t *testing.T) {
	for text, want := range map[string]string{
		" role == web , zone!= b ": "role=web,zone!=b",
		"os in( debian ,ubuntu)":   "os in (debian,ubuntu)",
		"os in (debian,debian)":    "os=debian",
		"os notin (a,b),!x, y":     "os notin (a,b),!x,y",
	} {
		s, err := selector.Parse(text)
		if err != nil || s.String() != want {
			t.Errorf("%q is %q, %v: want %q", text, s, err, want)
		}
	}
	s, _ := selector.Parse("a=b,!c,fact.x in (1)")
	if got := s.Keys(); !slices.Equal(got, []string{"a", "c", "fact.x"}) {
		t.Errorf("the keys are %q", got)
	}
}

func TestFaultsHaveAPlace(t *testing.T) {
	for text, want := range map[string]struct {
		at   int
		text string
	}{
		"":                                      {1, "is empty"},
		"  \t":                                  {1, "is empty"},
		"role=":                                 {6, "ends: expected a value of role"},
		"role=,zone=a":                          {6, `unexpected ",": expected a value of role`},
		"role=web,":                             {10, "ends: expected a key"},
		",role=web":                             {1, `unexpected ",": expected a key`},
		"role=web zone=a":                       {10, `unexpected "zone": expected a comma or the end`},
		"role web":                              {6, `unexpected "web"`},
		"role>1":                                {5, `unexpected ">"`},
		"!role=web":                             {6, `unexpected "=": expected a comma or the end`},
		"!!role":                                {2, `unexpected "!": expected a key`},
		"os in debian":                          {7, "values in parentheses"},
		"os in (":                               {8, "ends: expected a value of os"},
		"os in ()":                              {8, `unexpected ")": expected a value`},
		"os in (a,)":                            {10, `unexpected ")": expected a value`},
		"os in (a b)":                           {10, `unexpected "b": expected a comma or )`},
		"os in (a":                              {9, "ends: expected a comma or )"},
		"role=web)":                             {9, `unexpected ")"`},
		"-role=web":                             {1, "not the key of a label"},
		"Example/role=web":                      {1, "has the prefix"},
		"a/b/c=web":                             {1, "not the key of a label"},
		"zone=ü,role=-web":                      {6, "is not valid"},
		"zone=a,role=web-":                      {13, "is not valid"},
		"x=" + strings.Repeat("a", 64):          {3, "is not valid"},
		"os=" + strings.Repeat("a", 256):        {4, "is not valid"},
		"os=a\x1b[2J":                           {4, "control characters"},
		strings.Repeat("a", 64):                 {1, "not the key of a label"},
		strings.Repeat("a,", 64) + "a":          {130, "more than 64 terms"},
		"a=" + strings.Repeat("b", 2047):        {1, "2049 bytes long"},
		"ä":                                     {1, "not the key of a label"},
		"a in (" + numbers(257, ",") + ")":      {6 + len(numbers(257, ",")) + 1, "more than 256 values"},
		"a=b,c=" + strings.Repeat("\u200b", 20): {7, "is not valid"},
	} {
		_, err := selector.Parse(text)
		fault, ok := errors.AsType[*selector.Error](err)
		if !ok || fault.At != want.at || !strings.Contains(fault.Text, want.text) {
			t.Errorf("%.40q: %v; want character %d: … %s …", text, err, want.at, want.text)
		}
	}
}

// numbers returns short numbers of base 16.
func numbers(n int, between string) string {
	const digits = "0123456789abcdef"
	var all []string
	for i := range n {
		all = append(all, string(digits[i>>8])+string(digits[i>>4&15])+string(digits[i&15]))
	}
	return strings.Join(all, between)
}

func TestLabels(t *testing.T) {
	for text, want := range map[string]string{
		"role=web, zone=b":       "",
		"a=,example.com/x_y=1.2": "",
		"":                       "",
		"role":                   `"role" is not a label`,
		"os=x":                   "stands for a fact",
		"fact.rack=x":            "stands for a fact",
		"a=b,a=c":                "given twice",
		"a b=c":                  "not the key of a label",
		"=c":                     "not the key of a label",
		"a=b c":                  `the value "b c" of the label a`,
		"a=b/c":                  "the value",
		"EX/a=b":                 "has the prefix",
		"x..y/a=b":               "has the prefix",
		"/a=b":                   "has the prefix",
		"a/=b":                   "not the key of a label",
		"b=" + strings.Repeat("a", 64) + ",-=x,os=c": "not the key of a label; the value",
	} {
		labels, faults := selector.ParseLabels(text)
		if got := errors.Join(faults...); want == "" && got != nil || want != "" && len(faults) == 0 {
			t.Errorf("%q: %v", text, got)
			continue
		}
		if len(faults) > 0 && labels != nil {
			t.Errorf("%q has labels beside its faults: %v", text, labels)
		}
		for i, part := range strings.Split(want, "; ") {
			if want != "" && (i >= len(faults) || !strings.Contains(faults[i].Error(), part)) {
				t.Errorf("%q: %v; want %s", text, faults, want)
			}
		}
	}
	labels, _ := selector.ParseLabels("role=web, zone=b,e=")
	if !maps.Equal(labels, map[string]string{"role": "web", "zone": "b", "e": ""}) {
		t.Errorf("read %v", labels)
	}
	many := map[string]string{}
	for n := range strings.SplitSeq(numbers(65, " "), " ") {
		many[n] = ""
	}
	if faults := selector.CheckLabels(many); len(faults) != 1 {
		t.Errorf("65 labels: %v", faults)
	}
}

func TestFacts(t *testing.T) {
	for _, name := range []string{"", "a b", "-a", strings.Repeat("a", 59)} {
		if selector.CheckFact(name, "x") == nil {
			t.Errorf("%q is the name of a fact", name)
		}
	}
	for _, value := range []string{"\x1b", "a\nb", "\xff", "\u202e", strings.Repeat("a", 256)} {
		if selector.CheckFact("a", value) == nil {
			t.Errorf("%q is the value of a fact", value)
		}
	}
	if err := selector.CheckFact(strings.Repeat("a", 58), "a value, with blanks: "+strings.Repeat("ü", 100)); err != nil {
		t.Error(err)
	}
	// Every name of a fact can stand in a selector.
	if _, err := selector.Parse(selector.FactPrefix + strings.Repeat("a", 58)); err != nil {
		t.Error(err)
	}
}

func FuzzParse(f *testing.F) {
	for _, text := range []string{
		"role=web,zone!=b,os in (debian,ubuntu)", "!a,b notin (c , d)", "a==b", "os in (a,)", "in in (notin)", "a/b=c",
		"fact.x=ü", "a=\x00", "((((", "a=b,a!=b",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := selector.Parse(text)
		if err != nil {
			fault, ok := errors.AsType[*selector.Error](err)
			if !ok || fault.At < 1 || fault.At > len(text)+1 || fault.Text == "" || !s.IsZero() {
				t.Errorf("%q: %#v with %q", text, err, s)
			}
			return
		}
		again, err := selector.Parse(s.String())
		if err != nil || again.String() != s.String() || s.IsZero() {
			t.Errorf("%q is %q, and that is %q, %v", text, s, again, err)
		}
		for _, labels := range []map[string]string{{}, {"a": "b"}, {"a": "c", "b": "", "os": "debian"}} {
			if s.Matches(lookup(labels)) != again.Matches(lookup(labels)) {
				t.Errorf("%q and %q differ for %v", text, again, labels)
			}
		}
	})
}
