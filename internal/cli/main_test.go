package cli_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"drover/internal/test/harness"
)

var binaries struct{ drover, tickd string }

func TestMain(m *testing.M) {
	os.Exit(harness.Main(m, map[string]*string{"./cmd/drover": &binaries.drover, "./examples/tickd": &binaries.tickd},
		harness.Need{Test: "TestSocketIsTheOwnersOnly", Accounts: true}))
}

// TestTranscripts plays testdata/script against one drover dev. Beside the usual commands of a script there are:
//
//	drover CODE ARG...   runs drover against the server's socket and compares the exit code
//	tick NAME            writes NAME.yaml, the spec of a small daemon in a directory of its own
func TestTranscripts(t *testing.T) {
	t.Parallel()
	s := harness.Start(t, binaries.drover)
	receiver := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(receiver.Close)
	examples, err := filepath.Abs("../../examples/processes")
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(env *testscript.Env) error {
			env.Setenv("PATH", filepath.Dir(binaries.drover)+string(filepath.ListSeparator)+env.Getenv("PATH"))
			env.Setenv("TICKD", binaries.tickd)
			env.Setenv("DATA", s.DataDir)
			env.Setenv("URL", s.URL)
			env.Setenv("RECEIVER", receiver.URL)
			env.Setenv("EXAMPLES", examples)
			env.Setenv("CODE", harness.AppCode)
			env.Setenv("SECRET", harness.AppSecret)
			env.Setenv("HOST", harness.Agent)
			env.Setenv("LONG", strings.Repeat("x", 600))
			return nil
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"drover": func(ts *testscript.TestScript, _ bool, args []string) {
				want := args[0]
				args = args[1:]
				if !strings.Contains(strings.Join(args, " "), "--server") {
					args = append(args, "--data-dir", s.DataDir)
				}
				code := 0
				if err := ts.Exec(binaries.drover, args...); err != nil {
					if code = exitCode(err); code < 0 {
						ts.Fatalf("%v", err)
					}
				}
				if strconv.Itoa(code) != want {
					ts.Fatalf("exit code %d, want %s", code, want)
				}
			},
			"tick": func(ts *testscript.TestScript, _ bool, args []string) {
				dir := ts.MkAbs(args[0])
				ts.Check(os.Mkdir(dir, 0o755))
				ts.Check(os.WriteFile(ts.MkAbs(args[0]+".yaml"), []byte(tickSpec(dir)), 0o644))
			},
		},
	})
}

// tickSpec is how a daemon of the examples is run in a directory.
func tickSpec(dir string) string {
	return `process_name: tickd
directory: ` + dir + `
pid_file: ` + dir + `/tickd.pid
user: root
start: ` + binaries.tickd + ` start
stop: ` + binaries.tickd + ` stop
reload: ` + binaries.tickd + ` reload
`
}

// exitCode is that of a command that has failed, -1 when it did not run.
func exitCode(err error) int {
	if e, ok := err.(interface{ ExitCode() int }); ok { //nolint:errorlint // it comes as it is from the command
		return e.ExitCode()
	}
	return -1
}
