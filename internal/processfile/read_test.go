package processfile_test

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	v1 "drover/api/v1"
	"drover/internal/process"
	"drover/internal/processfile"
)

var update = flag.Bool("update", false, "write what is wanted again")

func file(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// golden compares a text with a file.
func golden(t *testing.T, name, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(filepath.Join("testdata", name), []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if d := cmp.Diff(string(file(t, name)), got); d != "" {
		t.Errorf("%s (- wanted, + got):\n%s", name, d)
	}
}

// same ignores where in a file a process stands.
func same() cmp.Option {
	return cmp.Options{
		cmpopts.IgnoreUnexported(processfile.Named{}, processfile.Document{}), cmpopts.IgnoreFields(processfile.Named{}, "Line"),
	}
}

// TestRead: defaults are merged, null takes one away, and what is written is read as the same.
func TestRead(t *testing.T) {
	docs, err := processfile.Read("shop.yaml", file(t, "shop.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	text, err := processfile.Write(docs)
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "shop.written.yaml", string(text))
	again, err := processfile.Read("shop.yaml", text)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(docs, again, same()); d != "" {
		t.Error(d)
	}
}

// TestFaults: all faults of a file are found at once, each with its line, its field and what was expected.
func TestFaults(t *testing.T) {
	docs, err := processfile.Read("bad.yaml", file(t, "bad.yaml"))
	if err == nil || len(docs) != 1 {
		t.Fatalf("%v, %v", docs, err)
	}
	golden(t, "bad.txt", err.Error()+"\n")
	for _, p := range docs[0].Processes {
		if p.Run != "true" || len(p.StopSignals) > 0 || p.Limits != nil || p.Name == "listed" && p.Hosts.IsZero() {
			t.Errorf("%s is no outline: %+v", p.Name, p.Spec)
		}
	}
}

// TestZoneOfCron: a rule may name its zone itself. Beside another time_zone that is a fault, which names both.
func TestZoneOfCron(t *testing.T) {
	for zone, want := range map[string]string{
		"": "", ", time_zone: Asia/Tokyo": "",
		", time_zone: Europe/Berlin": "names the zone Asia/Tokyo although the time zone is set to Europe/Berlin",
	} {
		_, err := processfile.Read("f.yaml", []byte("namespace: a\nprocesses:\n  p: {hosts: [x], run: 'true', "+
			"schedule: {cron: 'CRON_TZ=Asia/Tokyo 0 3 * * *'"+zone+"}}\n"))
		if (err != nil) != (want != "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", zone, err, want)
		}
	}
}

// TestNamesOfAfter: a name without a process, or without a namespace before its slash, is a fault.
func TestNamesOfAfter(t *testing.T) {
	for _, name := range []string{"", "/", "/a", "b/"} {
		_, err := processfile.Read("f", fmt.Appendf(nil,
			"namespace: n\nprocesses:\n  p: {run: x, hosts: [h], after: {%q: ready}}\n", name))
		want := fmt.Sprintf("f:3: processes.p.after: has the name %q: expected NAME or NAMESPACE/NAME", name)
		if fmt.Sprint(err) != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// TestMoreFaults: what others find in outlines is told unless a fault of the file says it or brings it about.
func TestMoreFaults(t *testing.T) {
	docs, err := processfile.Read("f", []byte(`namespace: a
processes:
  x: {run: x, nice: 77, hosts: 7, after: {q: up}}
  y: 5
  z: {run: x, hosts: [none], after: {x: ready, z: ready}}
---
namespace: b*
processes: {a: {run: x}}
---
namespace: c
processes: {}
`))
	own, _ := errors.AsType[processfile.Faults](err)
	if len(docs) != 1 || len(own) != 7 || docs[0].Processes[2].After["x"] == "" {
		t.Fatalf("%+v\n%v", docs, err)
	}
	const missing = "is missing: expected a list of hosts, here or in defaults"
	var fields []v1.FieldError
	for _, f := range [][2]string{
		{"x.hosts", missing},
		{"x.hosts[0]", `is "": no host has this name or matches it`},
		{"x.after.q", "no host has it"},
		{"y.hosts", missing},
		{"z.hosts[0]", "no host has this name"},
		{"z.after.x", "no host has it"},
	} {
		fields = append(fields, v1.FieldError{Field: "processes." + f[0], Detail: f[1]})
	}
	found := processfile.Place(docs, "a", fields)
	const circle = "f:5: processes.z.after: the process waits for itself: a/z → a/z\n"
	want := strings.Replace(err.Error(), circle, circle+
		"f:5: processes.z.hosts[0]: no host has this name\nf:5: processes.z.after.x: no host has it\n", 1)
	if got := own.With(found).Error(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	own = processfile.Faults{{File: "f", Path: "defaults.hosts", Text: "is 5"}}
	if got := own.With(found); len(got) != 5 {
		t.Errorf("got\n%s", got.Error())
	}
}

// TestCommandInPlaceOfItsPart: a command line where a part with a command is expected is one mistake, and the fault shows
// the form.
func TestCommandInPlaceOfItsPart(t *testing.T) {
	for field, want := range map[string]string{
		"preflight": "x.preflight", "before_start": "x.before_start", "before_stop": "x.before_stop",
	} {
		_, err := processfile.Read("f", []byte("namespace: n\nprocesses:\n  x: {run: x, hosts: [h], "+field+": nginx -t}\n"))
		if got := fmt.Sprint(err); got != "f:3: processes."+want+`: is "nginx -t": expected names with values, as in run: COMMAND` {
			t.Errorf("%s: %s", field, got)
		}
	}
}

// TestFaultOfADefault: all processes have it, and the file has it once.
func TestFaultOfADefault(t *testing.T) {
	const text = `namespace: shop
defaults:
  hosts: [h]
  nice: 99
  rollout: {batch: 1, canary: -1}
processes:
  a: {run: a}
  b: {run: b, nice: 1}
  c: {run: c, nice: 2, stop_signals: []}
`
	_, err := processfile.Read("f", []byte(text))
	want := `f:4: processes.a.nice: is 99: expected -20 to 19
f:5: defaults.rollout.canary: is -1: expected 0 to 10000`
	if err == nil || err.Error() != want {
		t.Errorf("the faults are\n%v\nwant\n%s", err, want)
	}
}

// TestSyntax: a fault of the YAML has the line where it is, and says what to do.
func TestSyntax(t *testing.T) {
	const begin, alias = "namespace: a\nprocesses:\n  b:\n", `* without quotes is an alias of YAML: put it in quotes: "*"`
	for text, want := range map[string]string{
		"\thosts: [x]\n    run: x\n":         "x.yaml:4: a tab indents the line: use spaces",
		"    hosts: [x]\n\trun: x\n":         "x.yaml:5: a tab indents the line: use spaces",
		"    hosts: [*]\n    run: x\n":       "x.yaml:4: " + alias,
		"    hosts: [*, web-1]\n":            "x.yaml:4: " + alias,
		"    run: x\n    hosts:\n    - *\n":  "x.yaml:6: " + alias,
		"    hosts:\n    - *\n    run: x\n":  "x.yaml:5: " + alias,
		"    hosts: [*-web]\n    run: x\n":   "x.yaml:4: processes.b.hosts[0]: unknown alias *-web: put a pattern in quotes",
		"    hosts: [x]\n    run: 'x\n":      `x.yaml:5: "'x" begins with a quote and has no quote at its end`,
		"    run: x\n    hosts: [x\n":        "x.yaml:5: a list begins with [ and has no ] at its end",
		"    run: @x\n":                      `x.yaml:4: "@x" begins with a character that YAML reserves: put the value in quotes`,
		"    run: \"\\q\"\n    hosts: [x]\n": "x.yaml:4: not valid YAML: found unknown escape character 'q'",
		"    hosts: [x]\n    run: echo a: b\n": `x.yaml:5: "echo a: b" has a colon and a space without quotes: ` +
			"put the value in quotes, or into the lines below a |",
		"    run: x\n      hosts: [x]\n": "x.yaml:5: the line continues the value before it: indent it as the field " +
			"before it, or put | before a value of several lines",
		"    hosts: [x]\n    directory: \"/caf\xe9\"\n    run: x\n": "x.yaml:5: holds bytes that are not UTF-8: expected text in UTF-8",
		"    run: x\n    hosts: []\n":                               "x.yaml:5: processes.b.hosts: is empty: expected a list of hosts, here or in defaults",
		"    run: x\n    hosts: [x]\n  c*: {run: x, hosts: [x]}\n": `x.yaml:6: processes.c*: the name "c*" is a pattern of names: ` +
			"expected a name without * and ?",
		"    run: x\n   hosts: [x]\n": "x.yaml:5: no line before has this indentation: indent fields that belong " +
			"together alike",
	} {
		_, err := processfile.Read("x.yaml", []byte(begin+text))
		if err == nil || err.Error() != want {
			t.Errorf("%q:\n%v\nwant\n%s", text, err, want)
		}
	}
}

// TestWhatIsWrittenIsQuoted: a fault names the field and what stands there, not what drover makes of it.
func TestWhatIsWrittenIsQuoted(t *testing.T) {
	const most = " is too long: expected at most 32767d"
	for text, want := range map[string]string{
		"a\nprocesses:\n  b: {run: x, stop_signals: [TERM 1000000h]}":    `3: processes.b.stop_signals[0]: "1000000h"` + most,
		"a\nprocesses:\n  b: {run: x, timeouts: {stop: 365000d}}":        `3: processes.b.timeouts.stop: "365000d"` + most,
		"a\nprocesses:\n  b: {run: x, timeouts: {stop: 32767d24h}}":      `3: processes.b.timeouts.stop: "32767d24h"` + most,
		"a\nprocesses:\n  b: {run: x, reload: {sig: HUP}}":               "3: processes.b.reload.sig: unknown field, did you mean signal?",
		"a\nprocesses:\n  b: {run: x, reload: {signal: NO}}":             `3: processes.b.reload: "NO" is not a signal: expected a name such as TERM, INT or USR1`,
		"5\nprocesses:\n  b: {run: x}":                                   `1: namespace: is "5": expected a string: put the value in quotes`,
		"a\nprocesses:\n  \"\": {run: x}":                                "3: processes: name is empty",
		"a\nprocesses:\n  b: {run: \"\"}":                                "3: processes.b.run: is blank: expected a command line",
		"a\nprocesses:\n  b: {run: \" \"}":                               "3: processes.b.run: is blank: expected a command line",
		"a\nprocesses:\n  b: {start: \"\", pid_file: /p, directory: /d}": "3: processes.b.start: is blank: expected a command line",
	} {
		_, err := processfile.Read("f", []byte("namespace: "+strings.Replace(text, "{", "{hosts: [h], ", 1)))
		if err == nil || err.Error() != "f:"+want {
			t.Errorf("%s:\n%v\nwant\nf:%s", text, err, want)
		}
	}
}

// TestQuotes: a quote without an end is a fault of the file, if it is surely one for a shell, too.
func TestQuotes(t *testing.T) {
	for line, want := range map[string]string{
		`echo 'a`:                  "has a single quote (') without an end",
		`echo "a`:                  `has a double quote (") without an end`,
		`echo "a'b" 'c" d`:         "has a single quote (') without an end",
		`echo "a\" b`:              `has a double quote (") without an end`,
		`echo don't | cat`:         "has a single quote (') without an end",
		"echo 'a\necho b":          "has a single quote (') without an end",
		`echo $# it's`:             "has a single quote (') without an end",
		`echo "it's" 'a "b' \' \"`: "",
		"echo a # it's":            "",
		"# it's\necho a":           "",
		"cat <<E\nit's\nE\n":       "",
		`echo "$(echo "a")"`:       "",
		`echo ${A:-it\'s}`:         "",
	} {
		quoted, _ := json.Marshal(line)
		for _, field := range []string{
			`"run":%s`, `"start":%s,"process_name":"x"`, `"run":"x","stop":%s`, `"run":"x","reload":%s`,
			`"run":"x","before_start":{"run":%s}`, `"run":"x","before_stop":{"run":%s}`, `"run":"x","version_command":%s`,
			`"run":"x","ready":{"exec":%s}`, `"run":"x","health":{"exec":%s}`,
		} {
			_, err := processfile.ReadSpecJSON(fmt.Appendf(nil, "{"+field+"}", quoted))
			if want == "" && err != nil || want != "" && (err == nil || !strings.HasSuffix(err.Error(), ": "+want)) {
				t.Errorf(field+": %v, want %q", quoted, err, want)
			}
		}
	}
}

// TestLimitOfZero: who gives a limit means one, so 0 is a fault unless it is a limit. core_size: 0 forbids core files.
func TestLimitOfZero(t *testing.T) {
	const text = `namespace: a
defaults: {hosts: [x], run: x, limits: {tasks: 0}}
processes:
  b:
    run: x
    limits: {memory: 0, cpu: 0%, open_files: 0, stack_size: 0, processes: 0, core_size: 0, locked_memory: 0, file_size: 0}
  c: {run: x, limits: null, thresholds: {memory: 0, cpu: 0}}
  d: {run: x, limits: {tasks: null}}
`
	_, err := processfile.Read("f", []byte(strings.Replace(text, "run: x, ", "", 1)))
	var want []string
	for _, field := range []string{
		"6: processes.b.limits.cpu", "6: processes.b.limits.memory", "6: processes.b.limits.open_files",
		"6: processes.b.limits.processes", "6: processes.b.limits.stack_size", "2: processes.b.limits.tasks",
		"7: processes.c.thresholds.cpu", "7: processes.c.thresholds.memory",
	} {
		want = append(want, "f:"+field+": is 0: leave the field out for no limit")
	}
	got := strings.Split(fmt.Sprint(err), "\n")
	slices.Sort(got)
	slices.Sort(want)
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	_, err = processfile.ReadSpecJSON([]byte(`{"run": "x", "limits": {"memory": 0}}`))
	if want := "limits.memory: is 0: leave the field out for no limit"; err == nil || err.Error() != want {
		t.Errorf("JSON: %v, want %s", err, want)
	}
}

// TestNamespace: commands must be able to name the processes of a namespace.
func TestNamespace(t *testing.T) {
	for _, name := range []string{"n/s", "*", "a?b"} {
		_, err := processfile.Read("f", []byte("namespace: \""+name+"\"\nprocesses:\n  b: {run: x, hosts: [x]}\n"))
		want := fmt.Sprintf("f:1: namespace: is %q: expected a name without /, * and ?", name)
		if err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
	_, err := processfile.ReadJSON([]byte("{\"namespace\": \"a\xe9\", \"processes\": {\"b\": {\"run\": \"x\", \"hosts\": [\"x\"]}}}"))
	if err == nil || !strings.Contains(err.Error(), "not UTF-8") {
		t.Errorf("bytes that are not UTF-8: %v", err)
	}
}

// TestByteOrderMark: a mark at the begin of a file is no part of the first field.
func TestByteOrderMark(t *testing.T) {
	docs, err := processfile.Read("f", []byte("\ufeffnamespace: a\nprocesses:\n  b: {run: x, hosts: [x]}\n"))
	if err != nil || docs[0].Namespace != "a" {
		t.Errorf("%+v, %v", docs, err)
	}
}

// TestAliveWithin: a process that must run for longer than it has until it is ready is a fault.
func TestAliveWithin(t *testing.T) {
	for text, want := range map[string]string{
		"{alive: 31s}": "", "{alive: 5s, within: 5s}": "",
		"{alive: 5001ms, within: 5s}": "f:4: ready.alive: is 5.001s, longer than ready.within (5s)",
	} {
		_, err := processfile.Read("f", []byte("namespace: a\ndefaults: {hosts: [x]}\nprocesses:\n  b: {run: x, ready: "+text+"}"))
		got := ""
		if err != nil {
			got = strings.ReplaceAll(err.Error(), "processes.b.", "")
		}
		if got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}

// TestShortMaxDelay: a longest pause below the default of the first one is a fault, not a longer pause.
func TestShortMaxDelay(t *testing.T) {
	for text, want := range map[string]string{
		"max_delay: 500ms":               "is 500ms, less than the default of delay (1s): set delay, too",
		"max_delay: 500ms, delay: 1s":    "is 500ms, less than delay (1s)",
		"max_delay: 500ms, delay: 500ms": "",
		"max_delay: 1s":                  "",
	} {
		_, err := processfile.Read("", []byte("namespace: a\nprocesses: {b: {hosts: [x], run: x, restart: {"+text+"}}}\n"))
		if want == "" && err == nil {
			continue
		}
		if err == nil || err.Error() != "line 2: processes.b.restart.max_delay: "+want {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// TestRealtimeSignals: a file names them as kill(1) does, and each has one name inside.
func TestRealtimeSignals(t *testing.T) {
	docs, err := processfile.Read("", []byte("namespace: a\nprocesses: {b: {hosts: [x], run: x, reload: {signal: sigrtmax-20}, "+
		"stop_signals: [RTMIN+3 1s, SIGRTMIN+0 1s, RTMIN+16 1s, RTMAX-0], restart: {success_codes: [RTMIN, rtmax-30]}}}\n"))
	if err != nil {
		t.Fatal(err)
	}
	f := docs[0].Processes[0].Spec
	got := []string{f.Reload.Signal}
	for _, s := range f.StopSignals {
		got = append(got, s.Signal)
	}
	for _, s := range f.Restart.SuccessCodes {
		got = append(got, string(s))
	}
	if d := cmp.Diff(strings.Fields("RTMIN+10 RTMIN+3 RTMIN RTMAX-14 RTMAX RTMIN RTMIN"), got); d != "" {
		t.Error(d)
	}
	for _, name := range []string{"RTMIN+31", "RTMAX-31", "RTMIN+", "RTMIN-1", "RTMAX+1", "RTMIN++1", "RT"} {
		var s v1.StopSignal
		if err := s.UnmarshalText([]byte(name)); err == nil {
			t.Errorf("%s is %+v", name, s)
		}
	}
}

// TestOrderBesideFaults: what waits for itself is told with all other faults of the files.
func TestOrderBesideFaults(t *testing.T) {
	source := func(name, text string) processfile.Source {
		return processfile.Source{File: name, Data: []byte(text)}
	}
	one := source("1", "namespace: a\ndefaults: {hosts: [h]}\nprocesses:\n  x: {run: x, after: {b/y: ready}}\n"+
		"  s: {run: x, after: {s: ready}}\n")
	const two = "namespace: b\ndefaults: {hosts: [h]}\nprocesses:\n  y: {run: x, after: {a/x: ready}}\n"
	circles := "1:4: processes.x.after: the process waits for itself: a/x → b/y → a/x\n" +
		"1:5: processes.s.after: the process waits for itself: a/s → a/s"
	docs, err := processfile.ReadAll(one, source("2", two))
	if len(docs) != 2 || fmt.Sprint(err) != circles {
		t.Errorf("%d documents, %v", len(docs), err)
	}
	docs, err = processfile.ReadAll(one, source("2", two+"  z: {run: x, nice: 20, after: {c: up}}\n"))
	want := circles + "\n2:5: processes.z.nice: is 20: expected -20 to 19\n" +
		`2:5: processes.z.after.c: is "up": expected started, ready or finished`
	if len(docs) != 2 || fmt.Sprint(err) != want {
		t.Errorf("%d documents,\n%v\nwant\n%s", len(docs), err, want)
	}
}

// TestAllFaultsAtOnce: those of the form, of the checks and of the ranges of a stored spec are told together.
func TestAllFaultsAtOnce(t *testing.T) {
	_, err := processfile.Read("f", []byte(`namespace: a
processes:
  x: {run: x, hosts: [h], nice: 77, limits: {cpu: 12.5%, memory: 1000001}, health: {tcp: "x:1", every: 40d}}
`))
	want := `f:3: processes.x.limits.cpu: is 12.5%: expected whole percent
f:3: processes.x.nice: is 77: expected -20 to 19
f:3: processes.x.health.every: is 40d: expected at most 30d
f:3: processes.x.limits.memory: is 1000001: expected 4194304 to 1125899906842624 bytes, or 0 for none`
	if fmt.Sprint(err) != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
}

// TestNoText: a file that is no text is refused in few lines, and a NUL byte of a value once.
func TestNoText(t *testing.T) {
	const begin = "namespace: a\nprocesses:\n  b:\n    hosts: [x]\n    run: x\n"
	for text, want := range map[string]string{
		"\x7fELF\x02\n" + strings.Repeat("\xff\x00\n", 100): "x.yaml:2: holds a NUL byte, so the file is no text: expected text in UTF-8",
		begin + "    environment: {A: \"a\x00b\"}\n":        "x.yaml:6: holds a NUL byte, so the file is no text: expected text in UTF-8",
		begin + "    environment: {A: \"a\\0b\"}\n":         "x.yaml:6: processes.b.environment.A: has a NUL byte",
	} {
		_, err := processfile.Read("x.yaml", []byte(text))
		if err == nil || err.Error() != want {
			t.Errorf("%.60q:\n%v\nwant\n%s", text, err, want)
		}
	}
	spec := process.Spec{Environment: map[string]string{"A": "a\x00b"}, Compat: &v1.Compat{}}
	found := processfile.FaultsOf(&spec, process.Start)
	if !slices.ContainsFunc(found, func(f processfile.Fault) bool { return f.Path == "environment.A" }) {
		t.Errorf("the server finds %v", found) // the file has the same fault, so it is told once
	}
	_, err := processfile.Read("x.yaml", []byte(strings.Repeat("\xe9\n", 100)))
	if err == nil || strings.Count(err.Error(), "not UTF-8") != 3 {
		t.Errorf("100 lines of another encoding: %v", err)
	}
}
