package httpapi

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
)

// published are the paths that a route is described under, with their methods.
func (r *route) published() []string {
	paths := append([]string(nil), r.direct...)
	switch {
	case r.dialect == jobDialect:
		paths = append(paths, "POST /api/c/compapi/v2/job/"+r.name+"/", "POST /api/c/compapi/v2/jobv3/"+r.name+"/")
	case r.direct != nil || r.area == noArea:
		paths = append(paths, "POST /api/c/compapi/v2/gse/"+r.name+"/")
	}
	if r.area != noArea {
		paths = append(paths, "POST /api/v2/"+string(r.area)+"/"+r.name)
	}
	return paths
}

func TestEveryRouteIsDescribedAndHasAnExample(t *testing.T) {
	api := filepath.FromSlash("../../../api")
	doc, err := openapi3.NewLoader().LoadFromFile(filepath.Join(api, "openapi.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if err := doc.Validate(t.Context()); err != nil {
		t.Fatal(err)
	}
	served := map[string]bool{"GET /healthz": true, "GET /readyz": true, "GET /metrics": true}
	table := new(server).table()
	for i := range table {
		r := &table[i]
		for _, p := range r.published() {
			served[p] = true
			method, path, _ := strings.Cut(p, " ")
			if item := doc.Paths.Value(path); item == nil || item.GetOperation(method) == nil {
				t.Errorf("%s is not in openapi.yaml", p)
			}
			if m := index(table).resolve(method, path); m.route == nil || m.route.name != r.name ||
				m.route.dialect != r.dialect || !m.allows(method) {
				t.Errorf("%s leads to %+v", p, m.route)
			}
		}
		if found, err := filepath.Glob(filepath.Join(api, "examples", r.name, "*.request.json")); err != nil ||
			len(found) == 0 {
			t.Errorf("%s has no example (%v)", r.name, err)
		}
	}
	for path, item := range doc.Paths.Map() {
		for method := range item.Operations() {
			if !strings.HasPrefix(path, "/api/v1/") && !served[method+" "+path] {
				t.Errorf("%s %s is described and not served", method, path)
			}
		}
	}
}

func TestEveryRefusalHasACodeInEachFamily(t *testing.T) {
	for k := range refusalKindsEnd {
		for _, f := range []family{esb, gateway, direct} {
			for _, d := range []dialect{gseDialect, jobDialect} {
				c := &call{match: match{family: f, route: &route{dialect: d}}}
				if refusef(k, "x").code(c) == 0 {
					t.Errorf("kind %d has no code in family %d, dialect %d", k, f, d)
				}
			}
		}
	}
}
