package processfile_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	v1 "drover/api/v1"
	"drover/internal/process"
	"drover/internal/processfile"
)

// stored is what hosts have: the JSON of each spec, by host and name.
type stored map[string]string

func (s stored) put(t *testing.T, host, name string, spec process.Spec) {
	t.Helper()
	text, err := json.Marshal(spec)
	if err != nil {
		t.Fatal(err)
	}
	s[host+" "+name] = string(text)
}

// applied is what an apply of documents stores.
func applied(t *testing.T, docs []processfile.Document) stored {
	t.Helper()
	all := stored{}
	for _, d := range docs {
		for _, p := range d.Processes {
			for _, host := range p.Hosts.Names {
				for _, one := range processfile.Expand(p) {
					if _, twice := all[host+" "+one.Name]; twice {
						t.Errorf("%s is there twice on %s", one.Name, host)
					}
					all.put(t, host, one.Name, processfile.Canonical(one.Spec))
				}
			}
		}
	}
	return all
}

// got is the file of what hosts have.
func (s stored) got(t *testing.T) v1.File {
	t.Helper()
	var placed []processfile.Placed
	for _, key := range slices.Sorted(maps.Keys(s)) {
		host, name, _ := strings.Cut(key, " ")
		var spec process.Spec
		if err := json.Unmarshal([]byte(s[key]), &spec); err != nil {
			t.Fatal(err)
		}
		placed = append(placed, processfile.Placed{Name: name, Host: host, Spec: *spec.Unnumbered()})
	}
	return processfile.Group("shop", placed)
}

// scattered are copies of random processes on three hosts. On some hosts a copy differs, is missing, or a process stands
// beside its copies.
func scattered(t *testing.T, seed uint64) stored {
	t.Helper()
	r, all := newDice(seed), stored{}
	for _, name := range []string{"a", "b"} {
		f := randomProcess(seed*2 + uint64(len(all)))
		for f.Run == "" {
			seed += 1000
			f = randomProcess(seed)
		}
		f.After = nil
		for _, host := range []string{"h1", "h2", "h3"} {
			f.Copies = pick(r, nil, new(1+r.IntN(4)), new(3))
			for i, one := range processfile.Expand(processfile.Named{Name: name, Spec: f}) {
				if r.IntN(8) == 0 {
					one.AlarmID += 100
				}
				if r.IntN(8) == 0 && one.RuntimeDirectory != "" {
					one.RuntimeDirectory = "other"
				}
				if r.IntN(12) != 0 {
					all.put(t, host, one.Name, processfile.Canonical(one.Spec))
				}
				if i == 0 && r.IntN(12) == 0 {
					all.put(t, host, name, processfile.Canonical(one.Spec))
				}
			}
		}
	}
	return all
}

// TestCopiesToFileAndBack: the file of what hosts have makes what they have, through YAML and through JSON.
func TestCopiesToFileAndBack(t *testing.T) {
	entries, processes := 0, 0
	for seed := range uint64(100) {
		have := scattered(t, seed)
		if len(have) == 0 {
			continue
		}
		file := have.got(t)
		text, err := processfile.Write(processfile.Documents(file))
		if err != nil {
			t.Fatal(err)
		}
		docs, err := processfile.Read("", text)
		if err != nil {
			t.Fatalf("seed %d: %v\n%s", seed, err, text)
		}
		asJSON, err := json.Marshal(file)
		if err != nil {
			t.Fatal(err)
		}
		again, err := processfile.ReadJSON(asJSON)
		if err != nil {
			t.Fatalf("seed %d: %v\n%s", seed, err, asJSON)
		}
		for _, d := range docs {
			entries += len(d.Processes)
		}
		processes += len(have)
		if back := applied(t, docs); !maps.Equal(back, have) {
			t.Fatalf("seed %d: hosts have\n%v\nand the file makes\n%v\n%s", seed, have, back, text)
		}
		if back := applied(t, again); !maps.Equal(back, have) {
			t.Fatalf("seed %d: hosts have\n%v\nand the JSON makes\n%v\n%s", seed, have, back, asJSON)
		}
	}
	if entries > processes*3/4 {
		t.Errorf("%d processes make %d entries", processes, entries)
	}
}

// TestCopiesAreOneEntry: copies from 1 on are one entry of a host if they are equal and all of them are known.
func TestCopiesAreOneEntry(t *testing.T) {
	spec := func(alarm int64) v1.Spec { return v1.Spec{Run: "x", AlarmID: alarm} }
	copies := func(numbers ...int) (all []processfile.Placed) {
		for _, n := range numbers {
			all = append(all, processfile.Placed{Name: process.CopyName("api", n), Host: "h", Spec: spec(0)})
		}
		return all
	}
	single, daemon, directory := copies(1, 2), copies(1, 2), copies(1, 2)
	single[1].Single = true
	for i := range daemon {
		daemon[i].Spec = v1.Spec{Start: "x", Compat: &v1.Compat{}}
		directory[i].Spec.RuntimeDirectory = process.CopyName("api", i+1)
	}
	for want, placed := range map[string][]processfile.Placed{
		"api×3":             copies(2, 1, 3),
		"api×1":             copies(1),
		"api@2":             copies(2),
		"api@1 api@2 api@4": copies(1, 2, 4),
		"api api@1 api@2":   append(copies(1, 2), processfile.Placed{Name: "api", Host: "h", Spec: spec(0)}),
		"api@1 api@2 api@3": append(copies(1, 2), processfile.Placed{Name: "api@3", Host: "h", Spec: spec(9)}),
		"api@1 api@2 single": append(single,
			processfile.Placed{Name: "single", Host: "h", Spec: spec(0)}),
		"api@1 api@2 wire": append(daemon, processfile.Placed{Name: "wire", Host: "h", Spec: spec(0)}),
		"api×2 directory":  append(directory, processfile.Placed{Name: "directory", Host: "h", Spec: spec(0)}),
	} {
		before := fmt.Sprint(placed)
		file := processfile.Group("shop", placed)
		var got []string
		for name, f := range file.Processes {
			if f.Copies != nil {
				name = fmt.Sprintf("%s×%d", name, *f.Copies)
			}
			got = append(got, name)
		}
		slices.Sort(got)
		if strings.Join(got, " ") != want || len(file.More) > 0 {
			t.Errorf("got %v, want %s", got, want)
		}
		if fmt.Sprint(placed) != before {
			t.Errorf("%s: Group changes its argument", want)
		}
	}
}

// TestNamesOfCopies: @ is for copies, and a number of copies is for run.
func TestNamesOfCopies(t *testing.T) {
	for text, want := range map[string]string{
		"api: {run: x, copies: 2}":                            "",
		"api@2: {run: x}":                                     "",
		"api@2: {start: x, pid_file: /p, compat: {}}":         "",
		"a@b: {start: x, pid_file: /p, compat: {}}":           "",
		"api: {run: x, copies: 1000, runtime_directory: api}": "",
		"api: {run: x, copies: 0}": "processes.api.copies: is 0: expected 1 to 1000. drover stop stops all copies, " +
			"and a file without the process removes them with --prune",
		"api: {run: x, copies: 1001}":                       "processes.api.copies: is 1001: expected 1 to 1000",
		"api: {run: x, copies: -1}":                         "processes.api.copies: is -1: expected 1 to 1000",
		"api: {start: x, pid_file: /p, copies: 2}":          "processes.api.copies: stands beside start: only a process with run can have copies",
		"api@2: {run: x, copies: 2}":                        "processes.api@2.copies: is not for a copy: remove @2 from the name",
		"api@2: {start: x, pid_file: /p}":                   "processes.api@2: is the name of a copy: only a process with run can have copies",
		"api@x: {run: x}":                                   "processes.api@x: has @ in its name, which is for copies: expected a name without @, or NAME@NUMBER",
		"a@1@2: {run: x}":                                   "processes.a@1@2: has @ in its name, which is for copies: expected a name without @, or NAME@NUMBER",
		"api@1001: {run: x}":                                "processes.api@1001: is copy 1001: expected 1 to 1000",
		strings.Repeat("x", 254) + ": {run: x}":             "",
		strings.Repeat("x", 254) + "@9: {run: x}":           "name is 256 bytes long: expected at most 255",
		strings.Repeat("y", 253) + ": {run: x, copies: 10}": "name is 256 bytes long: expected at most 255",
		"api: {run: x, copies: 2, after: {api@1: ready}}":   "processes.api.after: the process waits for itself: shop/api → shop/api",
	} {
		text = strings.Replace(text, ": {", ": {hosts: [h], ", 1)
		_, err := processfile.Read("", []byte("namespace: shop\nprocesses:\n  "+text+"\n"))
		got := ""
		if err != nil {
			got = err.Error()
		}
		if want == "" && got != "" || !strings.Contains(got, want) || strings.Count(got, "\n") > 0 {
			t.Errorf("%.60s: %q, want %q", text, got, want)
		}
	}
}

// TestOrderOfCopies: a name in after means all copies, and a circle over copies is found.
func TestOrderOfCopies(t *testing.T) {
	_, err := processfile.Read("", []byte(`namespace: shop
processes:
  api@1: {hosts: [h], run: x, after: {db: ready}}
  api@2: {hosts: [h], run: y, after: {api@1: ready}}
  db: {hosts: [h], run: x, after: {api: ready}}
`))
	if err == nil || !strings.Contains(err.Error(), "waits for itself: shop/api@1 → shop/db → shop/api@1") {
		t.Errorf("%v", err)
	}
	if _, err := processfile.Read("", []byte(`namespace: shop
processes:
  api@1: {hosts: [h], run: x}
  api@2: {hosts: [h], run: y, after: {api@1: ready}}
  web: {hosts: [h], run: x, copies: 3, after: {api: ready}}
`)); err != nil {
		t.Error(err)
	}
}

// TestNothingInAText: a variable without a value is a fault, unless it takes a default away.
func TestNothingInAText(t *testing.T) {
	const text = "namespace: shop\ndefaults: {hosts: [h], environment: {D: 1, E: 2}}\nprocesses:\n  a:\n    run: x\n" +
		"    environment:\n      D: null\n      HOME_DIR: ~\n      EMPTY:\n      NONE: \"\"\n    labels: {l: null}\n"
	_, err := processfile.Read("f", []byte(text))
	const told = `: is nothing: expected a string, or "" for an empty one`
	want := "f:8: processes.a.environment.HOME_DIR" + told + "\nf:9: processes.a.environment.EMPTY" + told +
		"\nf:11: processes.a.labels.l" + told
	if fmt.Sprint(err) != want {
		t.Errorf("%v\nwant\n%s", err, want)
	}
	right := strings.NewReplacer("HOME_DIR: ~", "F: 1", "EMPTY:", "G: 2", "{l: null}", "{l: m}").Replace(text)
	docs, err := processfile.Read("f", []byte(right))
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(docs[0].Processes[0].Environment); got != "map[E:2 F:1 G:2 NONE:]" {
		t.Errorf("the environment is %s", got)
	}
}

// TestAfterAnEndThatNeverComes: a process that drover keeps running is never finished.
func TestAfterAnEndThatNeverComes(t *testing.T) {
	const (
		told = "processes.b.after.%s: is finished, and drover relaunches %s after each end: expected started or ready here, " +
			"or once: true there"
		never = "restart: {when: never}"
	)
	for _, c := range []struct{ a, after, other string }{
		{"a: {run: x}", "a", "shop/a"},
		{"a: {run: x}", "shop/a", "shop/a"},
		{"a: {run: x, restart: {when: always}}", "a", "shop/a"},
		{"a: {run: x, restart: {delay: 5s}}", "a", "shop/a"},
		{"a: {start: x, pid_file: /p, process_name: x}", "a", "shop/a"},
		{"a: {run: x, copies: 2}", "a", "shop/a"},
		{"a: {run: x, copies: 2}", "a@2", "shop/a@2"},
		{"a@1: {run: x, once: true}\n  a@2: {run: x}", "a", "shop/a"},
		{"a: {run: x, once: true}", "a", ""},
		{"a: {run: x, on_demand: true}", "a", ""},
		{"a: {run: x, schedule: {every: 1h}}", "a", ""},
		{"a: {run: x, " + never + "}", "a", ""},
		{"a: {run: x, restart: {when: on-failure}}", "a", ""},
		{"a: {run: x, once: true}", "far/a", ""},
	} {
		text := "namespace: shop\ndefaults: {hosts: [h]}\nprocesses:\n  " + c.a + "\n  b: {run: x, after: {" + c.after +
			": finished}}\n"
		want := ""
		if c.other != "" {
			want = fmt.Sprintf(told, c.after, c.other)
		}
		docs, err := processfile.Read("", []byte(text))
		got := ""
		if err != nil {
			got = err.Error()
		}
		if !strings.HasSuffix(got, want) || (want == "") != (got == "") {
			t.Errorf("%s\n%q, want %q", text, got, want)
		}
		// The outlines of a file with other faults have this fault as the file has, and no more.
		outlined, _ := processfile.Read("", []byte(text+"  c: {run: x, nice: 99}\n"))
		if again := processfile.Check(outlined); len(again) != len(processfile.Check(docs)) {
			t.Errorf("%s\n%v in the outlines", text, again)
		}
	}
}
