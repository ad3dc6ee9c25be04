package httpapi

import (
	"slices"
	"strings"
)

// family is a group of paths with the same form of refusals.
type family uint8

const (
	esb     family = iota // below /compapi/: HTTP 200 for all but an unknown path
	gateway               // behind an API gateway: refusals have their own status
	direct                // the backends behind either: HTTP 200 for all but an unknown path or method
)

// paths indexes the table by the ends of paths.
type paths struct {
	// byName holds the routes by the last part of a path: one route, or one of each dialect.
	byName map[string][]*route
	// direct holds the routes of the backends' paths, by path and method.
	direct map[string]map[string]*route
}

func index(table []route) paths {
	p := paths{byName: map[string][]*route{}, direct: map[string]map[string]*route{}}
	for i := range table {
		r := &table[i]
		p.byName[r.name] = append(p.byName[r.name], r)
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

// match is the result of resolving a path.
type match struct {
	family family
	// route is nil for an unknown path. For a wrong method it is any route of the path.
	route *route
	// job is the route to use instead if the body turns out to be for JOB, because the path does not distinguish them.
	job *route
	// methods are the methods of the path.
	methods []string
}

// allows reports whether the path has the method.
func (m *match) allows(method string) bool { return slices.Contains(m.methods, method) }

// resolve finds the route of a path. It ignores empty parts, so a double or trailing slash changes nothing. Any prefix
// may precede the significant parts, so a deployment may have its own prefix.
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
	if len(parts) >= 2 && parts[0] == "api" && parts[1] == "v1" { // drover's own API
		return match{family: gateway}
	}
	return p.anywhere(before, name)
}

// belowESB resolves the part after /compapi/. Callers of the later gateway that know no gateway append its paths to
// GSE's.
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

// anywhere resolves a path that belongs neither to the ESB nor to a backend. The nearest part that names a system
// decides, or else the endpoint's name.
func (p paths) anywhere(before []string, name string) match {
	m := match{family: gateway, methods: namedMethods()}
	rows := p.byName[name]
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
			m.family, m.route = esb, p.find(name, gseDialect) // the ESB under a deployment's prefix
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
	for _, r := range p.byName[name] {
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
