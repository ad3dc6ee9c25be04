package words_test

import (
	"go/ast"
	"os"
	"slices"
	"strings"
	"testing"

	"drover/internal/words"
)

// keyOf returns the entry of a composite literal with a name; nil if there is none.
func keyOf(n *ast.CompositeLit, name string) ast.Node {
	for _, e := range n.Elts {
		if kv, ok := e.(*ast.KeyValueExpr); ok {
			if key, ok := kv.Key.(*ast.Ident); ok && key.Name == name {
				return kv
			}
		}
	}
	return nil
}

// TestFaultsOfFilesInChinese: whatever the reader of process files, and the checks behind it, say of a field is in
// the group file fault or field fault, as far as the source says it in one place.
func TestFaultsOfFilesInChinese(t *testing.T) {
	// What these say is another fault, or not about a file. Those of a timetable and of lists are below.
	said := map[string]bool{
		"not valid JSON: %v": true, "is set beside run: expected none, because %s": true,
		"has the name %.80q, which %s": true, "cannot write process %s: %w": true, "character %d: %s": true,
		"is %d: expected %d to %d %s, or 0 for none": true, "cannot read rules: %w": true,
		"has %d of %s: expected exactly one": true, "the selector ends: expected %s": true,
		"unexpected %.80q: expected %s": true, "is %s: expected %s": true,
		"the key %.80q is not the key of a label: expected %s":                       true,
		"the value %.80q of the label %s is not valid: expected %s":                  true,
		"%s %.40q: expected %s, with * for all, lists 1,2, ranges 1-5 and steps */2": true,
		"the document is %s: expected namespace, defaults and processes":             true,
	}
	seen := 0
	check := func(place string, e ast.Expr, args []ast.Expr) {
		format, ok := constant(e)
		if !ok || own.MatchString(verb.ReplaceAllString(format, "")) || !strings.Contains(format, " ") || said[format] {
			return
		}
		seen++
		if fault := strings.ReplaceAll(example(format, args), "%%", "%"); !inChinese(fault) {
			t.Errorf("%s: %q is not in faults/zh_CN.po", place, fault)
		}
	}
	for dir, formats := range map[string]map[string][]int{
		"../processfile": {"fault": {1, 2}, "Errorf": {0}, "New": {0}, "fail": {2}},
		"../process":     {"add": {1}},
		"../selector":    {"Errorf": {0}, "Sprintf": {0}, "fault": {0}, "missing": {0}},
		"../crontab":     {"Errorf": {0}, "New": {0}},
		"../../api/v1":   {"Errorf": {0}},
		"../server/plan": {},
	} {
		described := map[ast.Node]bool{} // what describes a field says no fault
		parsed(t, dir, func(place string, n ast.Node) {
			switch n := n.(type) {
			case *ast.CompositeLit:
				if keyOf(n, "Default") != nil {
					described[keyOf(n, "Text")] = true
				}
			case *ast.CallExpr:
				for _, at := range formats[called(n)] {
					if len(n.Args) > at {
						check(place, n.Args[at], n.Args[at+1:])
					}
				}
			case *ast.KeyValueExpr:
				if name, ok := n.Key.(*ast.Ident); !ok || name.Name != "Text" || dir == "../process" || described[n] {
					return
				}
				call, ok := n.Value.(*ast.CallExpr)
				if ok && called(call) == "Sprintf" {
					check(place, call.Args[0], call.Args[1:])
				} else {
					check(place, n.Value, nil)
				}
			}
		})
	}
	if seen < 120 {
		t.Errorf("only %d faults were found", seen)
	}
	const forms = ", with * for all, lists 1,2, ranges 1-5 and steps */2"
	for _, fault := range []string{
		`minute "61": expected 0 to 59` + forms, `hour "x": expected 0 to 23` + forms,
		`day of month "0": expected 1 to 31` + forms, `month "x": expected 1 to 12 or jan to dec` + forms,
		`day of week "8": expected 0 to 7 or sun to sat` + forms,
		`the key "a b" is not the key of a label: expected at most 63 letters, digits, -, _ and ., with a letter or ` +
			`digit at both ends`,
		"has 2 of notify, notify_fd, http, tcp, log, exec and alive: expected exactly one",
		"has 0 of exec, http, tcp and watchdog: expected exactly one", "has 2 of sha256 and md5: expected exactly one",
		"is set beside run: expected none, because run starts the process",
		"is set beside run: expected none, because a restart is a stop and a start of run",
		"is 7: expected 65536 to 100 bytes, or 0 for none", "is 7: expected 1 to 9 percent of one processor, or 0 for none",
		"is 7: expected 1 to 9 processes and threads, or 0 for none", "is names with values: expected a list",
		"the document is a list: expected namespace, defaults and processes", `is "red": expected always, on-failure, never`,
		`has the name "A=B", which holds an equals sign, a newline or a NUL byte`, "meta.name is 300 bytes long: expected at most 255",
		`character 5: unexpected ")": expected a comma or the end`,
		`character 3: unexpected "(": expected a value of a`, "character 9: the selector ends: expected a key",
		`character 9: unexpected "=": expected a comma or ) after the value b`,
	} {
		if !inChinese(fault) {
			t.Errorf("%q is not in faults/zh_CN.po", fault)
		}
	}
}

// inChinese reports whether the catalogue has a whole sentence.
func inChinese(fault string) bool {
	_, whole := words.Sentence(fault, words.Chinese)
	return whole
}

// TestFileInChinese: a file with faults of every kind, as the command line shows them.
func TestFileInChinese(t *testing.T) {
	data, err := os.ReadFile("../processfile/testdata/bad.txt")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	if len(lines) < 10 {
		t.Fatalf("only %d faults", len(lines))
	}
	for _, line := range lines {
		place, rest, _ := strings.Cut(line, ": ")
		got := words.Message(line, words.Chinese)
		if !strings.HasPrefix(got, place+": ") || !han(got) || slices.Contains(strings.Fields(got), "expected") {
			t.Errorf("%q is %q", line, got)
		}
		if field, fault, _ := strings.Cut(rest, ": "); !inChinese(fault) && !inChinese(rest) {
			t.Errorf("%s: %q is not in faults/zh_CN.po", field, fault)
		}
	}
}
