package importer_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"drover/internal/importer"
)

// TestInstances: instances of a template become copies if their names are numbers and nothing else differs.
func TestInstances(t *testing.T) {
	const equal, numbered = "[Service]\nExecStart=/bin/queue\n", "[Service]\nExecStart=/bin/queue --number %i\n"
	unit := func(name, text string) importer.Unit {
		return importer.Unit{Name: name + ".service", Files: []importer.Text{{Path: name, Data: []byte(text)}}}
	}
	after := unit("web", "[Unit]\nAfter=q@9.service q@10.service db.service\n[Service]\nExecStart=/bin/web\n")
	for name, c := range map[string]struct {
		units []importer.Unit
		want  string
	}{
		"equal": {
			[]importer.Unit{unit("q@10", equal), unit("q@9", equal), after},
			"q×2 of q@9.service q@10.service; web after q@1 q@2",
		},
		"one alone":         {[]importer.Unit{unit("q@1", equal)}, "q-1"},
		"by the number":     {[]importer.Unit{unit("q@1", numbered), unit("q@2", numbered)}, "q-1; q-2"},
		"by other settings": {[]importer.Unit{unit("q@1", equal), unit("q@2", equal+"Nice=3\n")}, "q-1; q-2"},
		"by name":           {[]importer.Unit{unit("q@mail", equal), unit("q@log", equal)}, "q-mail; q-log"},
		"beside the name":   {[]importer.Unit{unit("q", equal), unit("q@1", equal), unit("q@2", equal)}, "q; q-1; q-2"},
		"two templates": {
			[]importer.Unit{unit("a@0", equal), unit("b@1", equal), unit("a@1", equal), unit("b@2", equal)},
			"a×2 of a@0.service a@1.service; b×2 of b@1.service b@2.service",
		},
	} {
		r := importer.Systemd(c.units, []string{"h"}, facts())
		var got []string
		for _, p := range r.Processes {
			text := p.Name
			if p.Copies != nil {
				text += fmt.Sprintf("×%d of %s", *p.Copies, strings.Join(p.Origins, " "))
			}
			if p.After != nil {
				var names []string
				for name := range p.After {
					names = append(names, name)
				}
				slices.Sort(names)
				text += " after " + strings.Join(names, " ")
			}
			got = append(got, text)
		}
		if strings.Join(got, "; ") != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
		text, err := r.Write("shop")
		if err != nil {
			t.Fatal(err)
		}
		valid(t, name, text)
	}
}
