package harness

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Place is a drover of its own, and a directory for the processes of one namespace. Each of its methods fails the test
// if it cannot do its work.
type Place struct {
	T   *testing.T
	S   *Server
	Dir string
	// drover is the program.
	drover string
}

// NewPlace starts a drover with one agent, for the time of the test.
func NewPlace(t *testing.T, drover string, flags ...string) *Place {
	t.Helper()
	return &Place{t, Start(t, drover, flags...), Workdir(t), drover}
}

// CLI runs a command of drover to its end.
func (p *Place) CLI(args ...string) Finished {
	p.T.Helper()
	return Finish(p.T, "", Environment(p.Dir), p.drover, append(args, "--data-dir", p.S.DataDir)...)
}

// Write writes a file of the directory, and returns its path. In the text DIR is the directory, and BASE its name.
func (p *Place) Write(name, text string) string {
	p.T.Helper()
	path := filepath.Join(p.Dir, name)
	text = strings.NewReplacer("DIR", p.Dir, "BASE", filepath.Base(p.Dir)).Replace(text)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		p.T.Fatal(err)
	}
	return path
}

// Touch makes an empty file of the directory.
func (p *Place) Touch(name string) {
	p.T.Helper()
	p.Write(name, "")
}

// Apply applies a process file, as Write writes it, and fails the test if not all of it succeeds.
func (p *Place) Apply(text string) string {
	p.T.Helper()
	return p.apply(text, 0)
}

// ApplyFailing is Apply for a file of which some processes end at once, perhaps while the apply looks at them.
func (p *Place) ApplyFailing(text string) string {
	p.T.Helper()
	return p.apply(text, 0, 7)
}

func (p *Place) apply(text string, codes ...int) string {
	p.T.Helper()
	a := p.CLI("apply", "-f", p.Write("file.yaml", text), "--yes")
	if !slices.Contains(codes, a.Code) {
		p.T.Fatalf("apply: exit code %d\n%s%s", a.Code, a.Out, a.Errors)
	}
	return a.Out
}

// Process is a process of the namespace shop.
func (p *Place) Process(name string) *Process {
	return &Process{Server: p.S, Namespace: "shop", Name: name}
}

// State is the state of a process of the namespace shop.
func (p *Place) State(name string) string { return p.Process(name).State() }

// PID is the pid of the main process of a process of the namespace shop; 0 if it does not run.
func (p *Place) PID(name string) int { return p.Process(name).PID() }
