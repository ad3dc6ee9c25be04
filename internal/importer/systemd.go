package importer

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
)

// Unit is a unit of systemd: its file, and then its drop-ins in their order.
type Unit struct {
	// Name has the suffix, and for an instance of a template also the instance: foo@bar.service.
	Name  string
	Files []Text
}

const (
	service = ".service"
	timer   = ".timer"
)

// Systemd converts services. A timer gives the service that it starts a timetable; that service must be among the
// units.
func Systemd(units []Unit, hosts []string, facts Facts) *Import {
	r := &Import{}
	timers := map[string]*unit{}
	var services []*unit
	seen := map[string]bool{}
	for _, from := range units {
		if seen[from.Name] {
			continue
		}
		seen[from.Name] = true
		u := readUnit(from, facts)
		switch path.Ext(u.name) {
		case timer:
			if first := timers[u.starts()]; first != nil {
				r.Notes = append(r.Notes, fmt.Sprintf("%s is left out: a process has one timetable, and %s starts %s, too", u.name,
					first.name, u.starts()))
				continue
			}
			timers[u.starts()] = u
		case service:
			services = append(services, u)
		default:
			r.Notes = append(r.Notes, u.name+" is left out: drover imports services and timers only")
		}
	}
	names := map[string]string{}
	oneshots := map[string]bool{}
	for _, u := range services {
		names[u.name] = processName(u.name)
		oneshots[u.name] = u.last("Service", "Type") == "oneshot"
	}
	for _, u := range services {
		s := &serviceDraft{unit: u, facts: facts, names: names, oneshots: oneshots, timer: timers[u.name]}
		s.draft = &draft{name: names[u.name], origins: []string{u.name}}
		s.privateTmp = yes(u.last("Service", "PrivateTmp"))
		delete(timers, u.name)
		s.convert()
		r.finish(s.draft, hosts)
	}
	r.joinInstances()
	for _, name := range slices.Sorted(maps.Keys(timers)) {
		r.Notes = append(r.Notes, fmt.Sprintf("%s is left out: it starts %s, which is not imported", timers[name].name,
			name))
	}
	return r
}

// processName is the name of a process for a unit. @ is for copies.
func processName(unit string) string {
	name := strings.TrimSuffix(unit, service)
	return strings.ReplaceAll(strings.TrimSuffix(name, "@"), "@", "-")
}

// unit is a unit with its settings.
type unit struct {
	name     string
	settings []setting
	faults   []string
	facts    Facts
}

func readUnit(from Unit, facts Facts) *unit {
	settings, faults := parseUnit(from.Files)
	return &unit{name: from.Name, settings: settings, faults: faults, facts: facts}
}

// list returns the values of a key. An empty value removes those before it.
func (u *unit) list(section, key string) (all []string) {
	for _, s := range u.settings {
		if s.section != section || s.key != key {
			continue
		}
		if all = append(all, s.value); s.value == "" {
			all = nil
		}
	}
	return all
}

// last returns the last value of a key.
func (u *unit) last(section, key string) string {
	if all := u.list(section, key); len(all) > 0 {
		return all[len(all)-1]
	}
	return ""
}

// starts is the unit that a timer starts.
func (u *unit) starts() string {
	if name := u.last("Timer", "Unit"); name != "" {
		return u.expand(name)
	}
	return strings.TrimSuffix(u.name, timer) + service
}

// StartedBy returns the service that a timer starts.
func StartedBy(from Unit) string { return readUnit(from, Facts{}).starts() }

// parts are the parts of a unit's name: prefix@instance.suffix.
func (u *unit) parts() (prefix, instance string) {
	prefix, instance, _ = strings.Cut(strings.TrimSuffix(u.name, path.Ext(u.name)), "@")
	return prefix, instance
}

// expand replaces the specifiers of systemd.unit(5). It leaves those alone that only a running systemd knows.
func (u *unit) expand(text string) string {
	if !strings.Contains(text, "%") {
		return text
	}
	var out strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] != '%' || i+1 == len(text) {
			out.WriteByte(text[i])
			continue
		}
		i++
		value, ok := u.specifier(text[i])
		if !ok {
			value = "%" + text[i:i+1]
		}
		out.WriteString(value)
	}
	return out.String()
}

func (u *unit) specifier(c byte) (string, bool) {
	prefix, instance := u.parts()
	last := prefix[strings.LastIndexByte(prefix, '-')+1:]
	short, _, _ := strings.Cut(u.facts.Hostname, ".")
	values := map[byte]string{
		'%': "%", 'n': u.name, 'N': strings.TrimSuffix(u.name, path.Ext(u.name)), 'p': prefix, 'P': unescapeName(prefix),
		'i': instance, 'I': unescapeName(instance), 'j': last, 'J': unescapeName(last),
		'f': "/" + strings.TrimPrefix(unescapeName(firstOf(instance, prefix)), "/"),
		'u': "root", 'U': "0", 'g': "root", 'G': "0", 'h': "/root", 's': "/bin/sh",
		't': "/run", 'S': "/var/lib", 'C': "/var/cache", 'L': "/var/log", 'E': "/etc", 'T': "/tmp", 'V': "/var/tmp",
	}
	for c, value := range map[byte]string{
		'H': u.facts.Hostname, 'l': short, 'q': u.facts.Hostname, 'm': u.facts.MachineID, 'b': u.facts.BootID,
		'v': u.facts.KernelRelease, 'a': u.facts.Architecture,
	} {
		if value != "" {
			values[c] = value
		}
	}
	value, ok := values[c]
	return value, ok
}

func firstOf(texts ...string) string {
	for _, t := range texts {
		if t != "" {
			return t
		}
	}
	return ""
}

// unescapeName undoes systemd-escape(1).
func unescapeName(name string) string {
	var out strings.Builder
	for i := 0; i < len(name); i++ {
		switch {
		case name[i] == '-':
			out.WriteByte('/')
		case strings.HasPrefix(name[i:], `\x`) && len(name) >= i+4:
			n, text := unescape(name[i+1 : i+4])
			out.WriteString(text)
			i += n
		default:
			out.WriteByte(name[i])
		}
	}
	return out.String()
}
