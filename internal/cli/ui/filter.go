package ui

import (
	"errors"
	"slices"
	"strings"
	"time"

	"drover/client"
	"drover/internal/cli/term"
	"drover/internal/words"
)

// filter is a filter as typed: words and flags of drover ps.
type filter struct {
	namespace, name, search        string
	hosts, states, kinds           []string
	selector, labels, version, app string
	user, action                   string
	since, until                   time.Time
	flags                          []string // the flags that were given
}

// flagsOf are the flags that filter a list.
func flagsOf(k kind) []string {
	switch k {
	case processes:
		return []string{"hosts", "state", "selector", "process-label", "process-version"}
	case hosts:
		return []string{"search", "state", "selector"}
	case tasks:
		return []string{"state", "app"}
	case rollouts:
		return []string{"state"}
	case events:
		return []string{"hosts", "kind", "selector", "since", "until"}
	case audit:
		return []string{"user", "app", "action", "since", "until"}
	default:
		return nil
	}
}

// parse reads a filter of a list. wrong leaves only what 'drover why' can filter by.
func parse(p place, lang words.Lang) (filter, error) {
	var f filter
	fault := func(text words.Text, word string) error {
		return errors.New(text.In(lang, "word", word))
	}
	parts, closed := split(p.filter)
	if !closed {
		return f, errors.New(words.Screen.OpenQuote.In(lang))
	}
	allowed := flagsOf(p.kind)
	if p.wrong {
		allowed = []string{"hosts", "selector"}
	}
	for i := 0; i < len(parts); i++ {
		word := parts[i]
		if !strings.HasPrefix(word, "-") || word == "-" {
			if err := f.positional(p.kind, word, fault); err != nil {
				return f, err
			}
			continue
		}
		flag, value, given := strings.Cut(strings.TrimLeft(word, "-"), "=")
		flag = long(flag)
		field := f.field(flag)
		switch {
		case field == nil:
			return f, fault(words.Screen.UnknownFlag, word)
		case !slices.Contains(allowed, flag):
			return f, fault(words.Screen.FlagNotHere, "--"+flag)
		case !given && i+1 < len(parts):
			i++
			value = parts[i]
		}
		if value == "" {
			return f, fault(words.Screen.NoValue, word)
		}
		f.flags = append(f.flags, flag)
		field(value)
		if flag == "since" || flag == "until" {
			if _, err := term.Moment("--"+flag, value); err != nil {
				return f, fault(words.Screen.NotATime, value)
			}
		}
	}
	if len(f.states) > 1 && p.kind != processes {
		return f, fault(words.Screen.OneState, strings.Join(f.states, ","))
	}
	return f, nil
}

// positional takes a word without a flag.
func (f *filter) positional(k kind, word string, fault func(words.Text, string) error) error {
	namespace, name, found := strings.Cut(word, "/")
	switch {
	case k == hosts:
		f.hosts = append(f.hosts, word)
	case k != processes && k != events:
		return fault(words.Screen.FlagNotHere, word)
	case f.namespace+f.name != "":
		return fault(words.Screen.OneProcess, word)
	case !found:
		f.name = "*" + word + "*"
	case namespace == "" || name == "":
		return fault(words.Screen.NotAProcess, word)
	default:
		f.namespace, f.name = namespace, name
	}
	return nil
}

func long(flag string) string {
	switch flag {
	case "l":
		return "selector"
	case "host":
		return "hosts"
	}
	return flag
}

// field returns what takes the value of a flag; nil if there is no such flag.
func (f *filter) field(flag string) func(string) {
	list := func(to *[]string) func(string) {
		return func(v string) { *to = append(*to, strings.Split(v, ",")...) }
	}
	text := func(to *string) func(string) { return func(v string) { *to = v } }
	switch flag {
	case "hosts":
		return list(&f.hosts)
	case "state":
		return list(&f.states)
	case "kind":
		return list(&f.kinds)
	case "selector":
		return text(&f.selector)
	case "process-label":
		return text(&f.labels)
	case "process-version":
		return text(&f.version)
	case "search":
		return text(&f.search)
	case "app":
		return text(&f.app)
	case "user":
		return text(&f.user)
	case "action":
		return text(&f.action)
	case "since":
		return moment(&f.since)
	case "until":
		return moment(&f.until)
	}
	return nil
}

// moment takes a time or an age, as drover events does. It is the time of each question anew.
func moment(to *time.Time) func(string) {
	return func(v string) { *to, _ = term.Moment("", v) } // parse tells of a fault
}

// state is the one state of a filter that takes but one.
func (f filter) state() string {
	if len(f.states) == 0 {
		return ""
	}
	return f.states[0]
}

func (f filter) ofEvents() client.EventFilter {
	which := client.EventFilter{
		Name: f.name, Hosts: f.hosts, Kinds: f.kinds, Selector: f.selector, Since: f.since, Until: f.until,
	}
	if f.namespace != "" {
		which.Namespaces = []string{f.namespace}
	}
	return which
}

func (f filter) ofProcesses() client.ProcessFilter {
	return client.ProcessFilter{
		Namespace: f.namespace, Name: f.name, Hosts: f.hosts, Selector: f.selector, Limit: Page,
		ProcessChoice: client.ProcessChoice{ProcessSelector: f.labels, Version: f.version, States: f.states},
	}
}

// split splits a line into words, as a shell does with quotes. It reports whether each quote is closed.
func split(line string) (parts []string, closed bool) {
	var word strings.Builder
	var quote rune
	begun := false
	for _, r := range line {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(r)
		case r == '\'' || r == '"':
			quote, begun = r, true
		case r == ' ':
			if begun {
				parts = append(parts, word.String())
			}
			word.Reset()
			begun = false
		default:
			word.WriteRune(r)
			begun = true
		}
	}
	if begun {
		parts = append(parts, word.String())
	}
	return parts, quote == 0
}
