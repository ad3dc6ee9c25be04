package processfile_test

import (
	"encoding/json"
	"strings"
	"testing"

	"drover/internal/processfile"
)

// TestHostsBySelector: hosts is a list of names or an expression, in YAML and in JSON alike.
func TestHostsBySelector(t *testing.T) {
	const before, after = "namespace: n\nprocesses:\n  a:\n    run: sleep 1\n    ", "\n"
	docs, err := processfile.Read("f", []byte(before+`hosts: {select: "role=web,zone!=b"}`+after))
	if err != nil {
		t.Fatal(err)
	}
	if h := docs[0].Processes[0].Hosts; h.Select != "role=web,zone!=b" || len(h.Names) > 0 {
		t.Errorf("the hosts are %+v", h)
	}
	text, err := processfile.Write(docs)
	if err != nil || !strings.Contains(string(text), "hosts:\n      select: \"role=web,zone!=b\"\n") {
		t.Errorf("written as %s (%v)", text, err)
	}
	body, err := json.Marshal(processfile.Files(docs)[0])
	if err != nil {
		t.Fatal(err)
	}
	again, err := processfile.ReadJSON(body)
	if err != nil || again[0].Processes[0].Hosts.Select != "role=web,zone!=b" {
		t.Errorf("%s: %+v, %v", body, again, err)
	}
	// A list of a process replaces an expression of the defaults, and the other way round.
	docs, err = processfile.Read("f", []byte("namespace: n\ndefaults: {hosts: {select: role=web}}\nprocesses:\n"+
		"  a: {run: x}\n  b: {run: x, hosts: [h]}\n"))
	if err != nil {
		t.Fatal(err)
	}
	if a, b := docs[0].Processes[0].Hosts, docs[0].Processes[1].Hosts; a.Select != "role=web" || b.Select != "" ||
		len(b.Names) != 1 {
		t.Errorf("the hosts are %+v and %+v", a, b)
	}
	for hosts, want := range map[string]string{
		`{select: "role="}`:          "f:5: processes.a.hosts.select: character 6: the selector ends",
		`{select: ""}`:               "f:5: processes.a.hosts.select: is empty",
		`{select: }`:                 "f:5: processes.a.hosts.select: is empty",
		`{}`:                         "f:5: processes.a.hosts.select: is empty",
		`{select: [a]}`:              "f:5: processes.a.hosts.select: is a list: expected a string",
		`{selector: role=web}`:       "f:5: processes.a.hosts.selector: unknown field, did you mean select?",
		`{select: role, names: [a]}`: "f:5: processes.a.hosts.names: unknown field",
		`role=web`:                   "f:5: processes.a.hosts: is a string: expected a list of hosts, or select",
		`[1]`:                        `f:5: processes.a.hosts[0]: is "1": expected a string`,
	} {
		_, err := processfile.Read("f", []byte(before+"hosts: "+hosts+after))
		if err == nil || !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("hosts: %s: %v", hosts, err)
		}
	}
}
