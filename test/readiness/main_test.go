// Package readiness_test holds the black-box tests of readiness: what a process says of itself is what the built binary
// shows and does.
package readiness_test

import (
	"encoding/json"
	"os"
	"strconv"
	"strings"
	"testing"

	"drover/internal/test/harness"
)

var binaries struct{ drover, herald string }

func TestMain(m *testing.M) {
	os.Exit(harness.Main(m, map[string]*string{
		"./cmd/drover": &binaries.drover, "./test/readiness/herald": &binaries.herald,
	}, harness.Need{Test: "TestForeigner", Accounts: true}))
}

// place is a drover, and a directory for the processes of one namespace.
type place struct{ *harness.Place }

func newPlace(t *testing.T) *place {
	t.Helper()
	return &place{harness.NewPlace(t, binaries.drover)}
}

// apply applies processes of a namespace; HERALD in them is the program, DIR the directory. It returns the exit code.
func (p *place) apply(processes string) harness.Finished {
	p.T.Helper()
	text := "namespace: shop\ndefaults: {hosts: [\"0:127.0.0.1\"], user: root, directory: DIR}\nprocesses:\n" + processes
	text = strings.NewReplacer("HERALD", binaries.herald, "OTHER", strconv.Itoa(p.S.PID())).Replace(text)
	return p.CLI("apply", "-f", p.Write("file.yaml", text), "--yes")
}

// begin applies processes whose start must succeed.
func (p *place) begin(processes string) {
	p.T.Helper()
	if a := p.apply(processes); a.Code != 0 {
		p.T.Fatalf("apply: exit code %d\n%s%s", a.Code, a.Out, a.Errors)
	}
}

// becomes waits until a process is in a state.
func (p *place) becomes(name, state string) {
	p.T.Helper()
	harness.Eventually(p.T, name+" to be "+state, func() bool { return p.State(name) == state })
}

// told is all that the status says, as text.
func (p *place) told(name string) string {
	p.T.Helper()
	text, err := json.Marshal(p.Process(name).Status())
	if err != nil {
		p.T.Fatal(err)
	}
	return string(text)
}
