package httpapi

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestEveryRouteIsDescribedAndHasAnExample(t *testing.T) {
	api := filepath.FromSlash("../../../api")
	spec, err := os.ReadFile(filepath.Join(api, "openapi.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range new(server).table() {
		described := false
		for line := range strings.SplitSeq(string(spec), "\n") {
			p, isPath := strings.CutPrefix(line, "  /")
			described = described || isPath && strings.HasSuffix("/"+strings.TrimRight(p, "/:"), "/"+r.path)
		}
		if !described {
			t.Errorf("%s is not in openapi.yaml", r.path)
		}
		if found, err := filepath.Glob(filepath.Join(api, "examples", r.name(), "*.request.json")); err != nil || len(found) == 0 {
			t.Errorf("%s has no example (%v)", r.name(), err)
		}
	}
}

func TestRoutesDoNotHideEachOther(t *testing.T) {
	table := new(server).table()
	for i, a := range table {
		for j, b := range table {
			if i != j && strings.HasSuffix("/"+a.path, "/"+b.path) {
				t.Errorf("%s is also matched by %s", a.path, b.path)
			}
		}
	}
}

func TestEveryRefusalHasACodeInEachFamily(t *testing.T) {
	for k := range refusalKindsEnd {
		for _, f := range []family{esb, gateway} {
			for _, d := range []dialect{gseDialect, jobDialect} {
				c := &call{family: f, route: &route{dialect: d}}
				if refusef(k, "x").code(c) == 0 {
					t.Errorf("kind %d has no code in family %d, dialect %d", k, f, d)
				}
			}
		}
	}
}
