package httpapi

import (
	"slices"
	"strings"
)

// family is a group of paths with one habit of refusing.
type family uint8

const (
	esb     family = iota // below /compapi/: HTTP 200 for all but an unknown path
	gateway               // behind an API gateway: refusals have a status of their own
	direct                // the backends behind either: HTTP 200 for all but an unknown path or method
)

// paths is the table by how the ends of paths name its rows.
type paths struct {
	// named holds the routes by the last part of a path: one, or one of each dialect.
	named map[string][]*route
	// direct holds the routes of the backend's paths, by path and method.
	direct map[string]map[string]*route
}

func index(table []route) paths {
	p := paths{named: map[string][]*route{}, direct: map[string]map[string]*route{}}
	for i := range table {
		r := &table[i]
		p.named[r.name] = append(p.named[r.name], r)
		for _, d := range r.direct {
			method, path, _ := strings.Cut(d, " ")
			if p.direct[path] == nil {
				p.direct[path] = map[string]*route{}
			}
			p.direct[path][method] = r
		}
	}
	return p
}

// match is what a path leads to.
type match struct {
	family family
	// route is nil for an unknown path, and some route of the path for a method that it does not have.
	route *route
	// job is the route to take instead when the body turns out to be meant for JOB: the path does not tell.
	job *route
	// methods are those that the path has.
	methods []string
}

// allows reports whether the path has the method.
func (m *match) allows(method string) bool { return slices.Contains(m.methods, method) }

// resolve finds what a path leads to. Empty parts do not count, so a doubled or a trailing slash changes nothing, and
// anything may stand before the parts that count, so that a deployment may have any prefix.
func (p paths) resolve(method, urlPath string) match {
	parts := strings.FieldsFunc(urlPath, func(c rune) bool { return c == '/' })
	if len(parts) == 0 {
		return match{family: gateway}
	}
	before, name := parts[:len(parts)-1], parts[len(parts)-1]
	if i := lastOf(parts, "compapi"); i >= 0 {
		m := match{family: esb, methods: namedMethods()}
		if i < len(before) {
			m.route = p.belowESB(before[i+1:], name)
		}
		return m
	}
	if n := len(before); n >= 3 && before[n-3] == "procapi" {
		return p.backend(method, "/"+strings.Join(parts[n-3:], "/"))
	}
	if len(parts) >= 2 && parts[0] == "api" && parts[1] == "v1" { // our own API
		return match{family: gateway}
	}
	return p.anywhere(before, name)
}

// belowESB resolves what stands behind /compapi/. Callers of the later gateway put its paths behind GSE's where they
// know of no gateway.
func (p paths) belowESB(before []string, name string) *route {
	switch strings.Join(before, "/") {
	case "v2/gse":
		return p.find(name, gseDialect)
	case "v2/gse/api/v2/proc":
		return p.findIn(name, procArea)
	case "v2/gse/api/v2/cluster":
		return p.findIn(name, clusterArea)
	case "v2/job", "v2/jobv3":
		return p.find(name, jobDialect)
	default:
		return nil
	}
}

func (p paths) backend(method, path string) match {
	m := match{family: direct}
	for known, r := range p.direct[path] {
		m.methods = append(m.methods, known)
		if m.route == nil || known == method {
			m.route = r
		}
	}
	slices.Sort(m.methods)
	return m
}

// anywhere resolves a path that is neither the ESB's nor a backend's own: it is decided by the nearest part that names
// a system, and by the endpoint's name where none does.
func (p paths) anywhere(before []string, name string) match {
	m := match{family: gateway, methods: namedMethods()}
	rows := p.named[name]
	if len(rows) == 0 {
		return m
	}
	if n := len(before); n >= 2 && before[n-2] == "v2" &&
		(area(before[n-1]) == procArea || area(before[n-1]) == clusterArea) {
		m.route = p.findIn(name, area(before[n-1]))
		return m
	}
	for _, b := range slices.Backward(before) {
		switch b {
		case "gse":
			m.family, m.route = esb, p.find(name, gseDialect) // the ESB under a prefix of the deployment's own
			return m
		case "job", "jobv3":
			m.family, m.route = esb, p.find(name, jobDialect)
			return m
		case "job-execute", "esb":
			m.family, m.route = direct, p.find(name, jobDialect)
			return m
		}
	}
	m.route = rows[0]
	if len(rows) == 2 {
		m.route, m.job = p.find(name, gseDialect), p.find(name, jobDialect)
	}
	return m
}

func (p paths) find(name string, d dialect) *route {
	for _, r := range p.named[name] {
		if r.dialect == d {
			return r
		}
	}
	return nil
}

func (p paths) findIn(name string, a area) *route {
	if r := p.find(name, gseDialect); r != nil && r.area == a {
		return r
	}
	return nil
}

func lastOf(parts []string, word string) int {
	for i, part := range slices.Backward(parts) {
		if part == word {
			return i
		}
	}
	return -1
}
