package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"drover/internal/test/harness"
)

// fallsOnce is the body of a test that falls the first time only.
const fallsOnce = `
	if _, err := os.Stat("fell"); err != nil {
		if err := os.WriteFile("fell", nil, 0o600); err != nil { t.Fatal(err) }
		%s
	}`

// write writes a module whose packages are as many tests, each with its body.
func write(t *testing.T, bodies map[string]string) (root string, packages []string) {
	t.Helper()
	root = t.TempDir()
	file := func(path, text string) {
		path = filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	file("go.mod", "module drover\n\ngo 1.26\n")
	for name, body := range bodies {
		if fall, is := strings.CutPrefix(body, "once:"); is {
			body = strings.Replace(fallsOnce, "%s", fall, 1)
		}
		file(name+"/x_test.go", "package x\n\nimport (\"os\"; \"sync\"; \"testing\")\n\nvar _, mutex = os.Stat, sync.Mutex{}\n\n"+
			"func TestX(t *testing.T) { "+body+" }\n")
		packages = append(packages, module+name)
	}
	slices.Sort(packages)
	return root, packages
}

// runs returns a run over a module that was just written, and what it prints.
func runs(t *testing.T, root string) (*run, *bytes.Buffer) {
	t.Helper()
	var out bytes.Buffer
	return &run{out: &out, root: root, dir: t.TempDir(), test: goTest(root)}, &out
}

// goTest runs the go command itself.
func goTest(root string) func(context.Context, string, stage, []string) error {
	return func(ctx context.Context, record string, s stage, packages []string) error {
		file, err := os.Create(record)
		if err != nil {
			return err
		}
		defer file.Close()
		cmd := exec.CommandContext(ctx, "go", slices.Concat([]string{"test", "-json", "-count", "1"}, s.Flags, packages)...)
		cmd.Dir, cmd.Stdout = root, file
		cmd.Env = append(os.Environ(), "GOWORK=off", "CGO_ENABLED=0")
		return cmd.Run()
	}
}

// lines are the last lines of what was printed.
func lines(out *bytes.Buffer, n int) []string {
	all := strings.Split(strings.TrimSpace(out.String()), "\n")
	return all[max(0, len(all)-n):]
}

// TestTheSecondTry: a package that falls by luck is flaked, and the run passes; what is certain fails it.
func TestTheSecondTry(t *testing.T) {
	for name, c := range map[string]struct {
		bodies map[string]string
		passes bool
		says   string
	}{
		"nothing falls": {map[string]string{"a": ""}, true, "1 passed, 0 failed"},
		"a test falls once": {
			map[string]string{"a": "", "b": `once:t.Run("in", func(t *testing.T) { t.Fatal("why it fell") })`},
			true,
			"FLAKED b TestX/in",
		},
		"a test falls twice":    {map[string]string{"a": `t.Fatal("no")`}, false, "FAILED a TestX, after TestX"},
		"a time-out falls once": {map[string]string{"a": `once:<-t.Context().Done()`}, true, "FLAKED a TestX"},
		"a process ends once":   {map[string]string{"a": `once:os.Exit(3)`}, true, "FLAKED a TestX"},
		"a panic":               {map[string]string{"a": `once:panic("oh")`}, false, "FAILED a TestX: panic: oh"},
		"a sub-test falls by the t of its parent": {
			map[string]string{"a": `once:parent := t; t.Run("in", func(t *testing.T) { t.Parallel(); parent.Fatal("why it fell") })`},
			true,
			"FLAKED a TestX",
		},
		"a panic of a goroutine": {map[string]string{"a": `once:go panic("oh"); <-t.Context().Done()`}, false, "FAILED a TestX: panic: oh"},
		"the runtime's own panic": {
			map[string]string{"a": `once:mutex.Unlock()`},
			false,
			"FAILED a TestX: fatal error: sync: unlock of unlocked mutex",
		},
		"a test that says it": {
			map[string]string{"a": `once:t.Error("NEVER A FLAKE: it ran twice")`},
			false,
			"FAILED a TestX: the test says NEVER A FLAKE",
		},
		"a rule of the code":   {map[string]string{"archtest": `once:t.Error("no")`}, false, "it breaks a rule"},
		"a build":              {map[string]string{"a": `once:nothing()`}, false, "FAILED a (outside of its tests): it does not build"},
		"a skipped test":       {map[string]string{"a": `t.Skip("no")`}, true, "LEFT OUT a TestX"},
		"a package leaves out": {map[string]string{"a": `}; func init() { os.Stderr.WriteString("LEFT OUT: much\n")`}, true, "LEFT OUT a much"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root, packages := write(t, c.bodies)
			r, out := runs(t, root)
			err := r.do(t.Context(), []stage{{Name: "tests", Packages: packages, Flags: []string{"-timeout", "2s"}}})
			if (err == nil) != c.passes || !strings.Contains(out.String(), c.says) {
				t.Errorf("%v; want %q in\n%s", err, c.says, out)
			}
			if last := lines(out, 1)[0]; c.passes && !strings.HasSuffix(last, " passed, 0 failed") {
				t.Errorf("the last line is %q", last)
			}
		})
	}
}

// TestTheEndSaysWhy: the last lines have what a test said, also if a program of the test wrote much.
func TestTheEndSaysWhy(t *testing.T) {
	t.Parallel()
	fall := `for range 20 { t.Log(os.Args) }; println("much"); t.Error("why it fell"); t.Log("and more")`
	for name, body := range map[string]string{"flaked": "once:" + fall, "failed": fall} {
		root, packages := write(t, map[string]string{"a": body})
		r, out := runs(t, root)
		_ = r.do(t.Context(), []stage{{Packages: packages}})
		if last := strings.Join(lines(out, 15), "\n"); !strings.Contains(last, ": why it fell") {
			t.Errorf("%s: the last lines are\n%s", name, last)
		}
	}
}

// TestFlakesAreFew: more than three flaked packages fail a run, also if they fell in the run before that has the same
// records; and so does a test that flakes again and has not been mended.
func TestFlakesAreFew(t *testing.T) {
	t.Parallel()
	fall := `once:t.Fatal("luck")`
	root, packages := write(t, map[string]string{"a": fall, "b": fall, "c": fall, "d": fall})
	first, out := runs(t, root)
	if err := first.do(t.Context(), []stage{{Packages: packages[:3]}}); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	second, out := runs(t, root)
	second.dir = first.dir
	if err := second.do(t.Context(), []stage{{Packages: packages[3:]}}); !errors.Is(err, errFailed) ||
		!strings.Contains(out.String(), "4 packages flaked") {
		t.Errorf("%v\n%s", err, out)
	}
	for mend, passes := range map[string]bool{"": false, "-": false, "it waits for the line": true} {
		root, packages := write(t, map[string]string{"a": fall})
		page := filepath.Join(root, "flaked.md")
		row := "| package | test | when | cause | mend |\n|---|---|---|---|---|\n| `a` | `TestX` | today | luck | " + mend + " |\n"
		if err := os.WriteFile(page, []byte(row), 0o600); err != nil {
			t.Fatal(err)
		}
		r, out := runs(t, root)
		var err error
		if r.known, err = readKnown(page); err != nil {
			t.Fatal(err)
		}
		if err := r.do(t.Context(), []stage{{Packages: packages}}); (err == nil) != passes {
			t.Errorf("mend %q: %v\n%s", mend, err, out)
		}
	}
}

// TestNothingIsLeftOutInCI: what is left out fails a run that allows none.
func TestNothingIsLeftOutInCI(t *testing.T) {
	t.Parallel()
	root, packages := write(t, map[string]string{"a": `t.Skip("no")`})
	r, out := runs(t, root)
	r.skips = true
	if err := r.do(t.Context(), []stage{{Packages: packages}}); !errors.Is(err, errFailed) {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestAPackageThatWasNotTested fails a run: go test does not know it.
func TestAPackageThatWasNotTested(t *testing.T) {
	t.Parallel()
	root, packages := write(t, map[string]string{"a": ""})
	for _, missing := range []string{module + "nowhere", module + "-flag"} {
		r, out := runs(t, root)
		if err := r.do(t.Context(), []stage{{Packages: append(packages, missing)}}); err == nil {
			t.Errorf("%s: %s", missing, out)
		}
	}
}

// TestDataRaces: any test of a package may seem to have said that there is a race.
func TestDataRaces(t *testing.T) {
	t.Parallel()
	const record = `{"Action":"run","Package":"drover/a","Test":"TestGood"}
{"Action":"output","Package":"drover/a","Test":"TestGood","Output":"WARNING: DATA RACE\n"}
{"Action":"run","Package":"drover/a","Test":"TestBad"}
{"Action":"pass","Package":"drover/a","Test":"TestGood"}
{"Action":"fail","Package":"drover/a","Test":"TestBad"}
{"Action":"fail","Package":"drover/a"}
`
	packages, err := group(strings.NewReader(record))
	if err != nil {
		t.Fatal(err)
	}
	if got := packages[module+"a"].result(); got.Certain != "a data race" || !slices.Equal(got.Fallen, []string{"TestBad"}) {
		t.Errorf("%+v", got)
	}
}

// TestTheDetectorsOwnEnd is not counted as a flake: no test fell.
func TestTheDetectorsOwnEnd(t *testing.T) {
	t.Parallel()
	root, packages := write(t, map[string]string{"a": `once:os.Stderr.WriteString("ThreadSanitizer: CHECK failed: x\n"); os.Exit(66)`})
	r, out := runs(t, root)
	if err := r.do(t.Context(), []stage{{Packages: packages}}); err != nil || strings.Contains(out.String(), "FLAKED") {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestTheWordOfTests is the one that this command looks for.
func TestTheWordOfTests(t *testing.T) {
	t.Parallel()
	if never != harness.Never {
		t.Errorf("tests say %q", harness.Never)
	}
}

// TestWhatIsMissing: a stage that cannot run here is named, and fails a run that allows nothing to be left out.
func TestWhatIsMissing(t *testing.T) {
	t.Parallel()
	root, packages := write(t, map[string]string{"a": ""})
	for _, skips := range []bool{false, true} {
		r, out := runs(t, root)
		r.skips = skips
		stages := []stage{{Name: "tests", Packages: packages}, {Name: "races", Packages: packages, Needs: "gcc"}}
		err := r.do(t.Context(), r.possible(stages))
		if (err != nil) != skips || !strings.Contains(out.String(), "LEFT OUT races, which needs gcc") {
			t.Errorf("%v\n%s", err, out)
		}
	}
}

// TestNamedTestsExist: a test that was renamed would be run by nobody in a hurry, or by somebody who must not.
func TestNamedTestsExist(t *testing.T) {
	t.Parallel()
	for _, list := range []map[string][]string{brief, atRequest, alone} {
		for pkg, tests := range list {
			files, err := filepath.Glob(filepath.Join("..", "..", pkg, "*_test.go"))
			if err != nil || len(files) == 0 {
				t.Errorf("%s has no tests: %v", pkg, err)
			}
			var all strings.Builder
			for _, file := range files {
				text, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				all.Write(text)
			}
			for _, test := range tests {
				if !strings.Contains(all.String(), "\nfunc "+test+"(t *testing.T)") {
					t.Errorf("%s has no test %s", pkg, test)
				}
			}
		}
	}
}

// TestRacesNeedTwoGoroutines: a package is tested under the race detector if its code or its tests start a goroutine, or
// use what is there for several.
func TestRacesNeedTwoGoroutines(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"package p\n\nfunc f() int { return 1 }\n":                                   false,
		"package p\n\nfunc f() { go f() }\n":                                         true,
		"package p\n\nimport \"time\"\n\nfunc f() { time.AfterFunc(1, f) }\n":        true,
		"package p\n\nimport \"sync\"\n\nvar m sync.Mutex\n":                         true,
		"package p\n\nimport \"testing\"\n\nfunc f(t *testing.T) { t.Parallel() }\n": true,
		"package p\n\nimport \"testing\"\n\nfunc f(t *testing.T) { t.Helper() }\n":   false,
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "p.go"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := concurrent(dir); err != nil || got != want {
			t.Errorf("%v, %v, want %v:\n%s", got, err, want, text)
		}
	}
}
