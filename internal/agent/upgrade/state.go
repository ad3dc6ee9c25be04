// Package upgrade replaces the program of the agent by a version that the owner of the host has signed. It fetches the
// program, tries it beside the present one, and returns to the present one unless the new one proves itself. It decides
// what may be tried; the caller has the orders, the link and the processes.
//
// All of it is in the directory "versions" of the agent. One small file says which program is in use and which one is
// being tried; it is replaced as a whole. A program counts only after its sum was verified.
package upgrade

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"drover/internal/agent/specstore"
	"drover/internal/durable"
	"drover/internal/process"
	"drover/internal/release"
)

// Program is a fetched version of the agent.
type Program struct {
	Version string `json:"version"`
	SHA256  string `json:"sha256"`
	// Signed is when its package was signed, in Unix seconds.
	Signed int64 `json:"signed"`
	// Format is the latest layout of the agent's files that it knows.
	Format int `json:"format"`
}

// Trial is a version that is being tried by an order.
type Trial struct {
	Item    string `json:"item"`
	Program `json:"program"`
}

// Verdict is how a trial, or the probation after it, has ended.
type Verdict struct {
	Item    string        `json:"item"`
	Version string        `json:"version"`
	Fault   process.Fault `json:"fault,omitempty"`
	Text    string        `json:"text"`
	// Untold tells that no event says so yet.
	Untold bool `json:"untold,omitempty"`
}

// Probation is the time from a trial until the version in use has run for long enough.
type Probation struct {
	// Former is the version that was in use before; nil means the installed program.
	Former *Program `json:"former,omitempty"`
	// Starts is how often the version has been started since the trial.
	Starts int `json:"starts,omitempty"`
}

const (
	// lasting is how long a version in use must run, so that its probation ends.
	lasting = time.Minute
	// mostStarts is how often it may be started before that.
	mostStarts = 5
)

// state is what a crash must not lose.
type state struct {
	// Current is the version in use; nil means the installed program. Installed is the fingerprint of the installed
	// program when Current was chosen: whoever installs another one by hand has the last word.
	Current   *Program `json:"current,omitempty"`
	Installed string   `json:"installed,omitempty"`
	// Probation is set while Current is on probation.
	Probation *Probation `json:"probation,omitempty"`
	// Signed is the newest time of signature of all versions that have proven themselves.
	Signed int64 `json:"signed,omitempty"`
	// Fetching is the order that has begun before its program was fetched.
	Fetching string   `json:"fetching,omitempty"`
	Trial    *Trial   `json:"trial,omitempty"`
	Verdict  *Verdict `json:"verdict,omitempty"`
}

func versionsOf(dir string) string { return filepath.Join(dir, "versions") }

func stateOf(dir string) string { return filepath.Join(versionsOf(dir), "state.json") }

// programOf returns the file of a program. Its name is made of the sum: no text of others becomes a path.
func programOf(dir, sum string) string { return filepath.Join(versionsOf(dir), programPrefix+sum) }

const (
	programPrefix = "drover-agent-"
	partSuffix    = ".part"
)

// load reads the state; without a file it is empty.
func load(dir string) (s state, err error) {
	text, err := os.ReadFile(stateOf(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &s)
	}
	if err != nil {
		return state{}, fmt.Errorf("cannot read which version is in use: %w", err)
	}
	return s, nil
}

// save stores the state and returns when it is on disk.
func save(dir string, s state) error {
	text, err := json.Marshal(s)
	if err == nil {
		err = os.MkdirAll(versionsOf(dir), 0o700)
	}
	if err == nil {
		err = durable.SyncDir(dir)
	}
	if err == nil {
		err = durable.Replace(stateOf(dir), text, 0o600)
	}
	if err != nil {
		return fmt.Errorf("cannot store which version is in use: %w", err)
	}
	return nil
}

// verify returns nil if a file has this sum.
func verify(path, sum string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return err
	}
	if got := hex.EncodeToString(h.Sum(nil)); got != sum {
		return fmt.Errorf("%s is damaged: its sum is %s, expected %s", path, got, sum)
	}
	return nil
}

// fingerprint changes when somebody installs another program at a path.
func fingerprint(path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	sys, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return "", fmt.Errorf("cannot identify %s", path)
	}
	return fmt.Sprintf("%d %d %d.%09d", sys.Ino, sys.Size, sys.Mtim.Sec, sys.Mtim.Nsec), nil
}

// self returns the file of this program.
func self() (string, error) { return os.Readlink("/proc/self/exe") }

// fetched reports whether a program is one of the fetched versions in a directory.
func fetched(dir, program string) bool {
	own, err := filepath.EvalSymlinks(versionsOf(dir))
	return err == nil && filepath.Dir(program) == own && strings.HasPrefix(filepath.Base(program), programPrefix)
}

// Choice is what an agent that starts finds out about its program.
type Choice struct {
	// Run is the program to run instead of this one; empty means this one.
	Run string
	// Version is the version that this program was fetched as; nil for the installed program.
	Version *Program
}

// Choose decides which program runs: this one, or the version in use. An agent calls it first of all, but not a program
// that is being tried. A trial that is under way has been interrupted: it has failed. Choose changes nothing if another
// agent uses the directory. It blocks for the disk. It never fails: if in doubt, this program runs.
func Choose(dir string, log *slog.Logger) Choice {
	s, err := load(dir)
	if err != nil {
		log.Error("using the installed program", "error", err)
		return Choice{}
	}
	program, err := self()
	if err != nil {
		log.Error("using this program", "error", err)
		return Choice{}
	}
	before := s
	if err := specstore.Unused(dir); err != nil {
		log.Error("using this program", "error", err)
		return Choice{}
	}
	if t := s.Trial; t != nil {
		s.Trial = nil
		s.Verdict = &Verdict{
			Item: t.Item, Version: t.Version, Fault: process.Failed,
			Text: wentBack(t.Version, "the agent or the host ended during its trial"),
		}
	}
	c := s.choose(dir, program, log)
	if s != before {
		if err := save(dir, s); err != nil {
			log.Error("cannot note the choice of a program, choosing again at the next start", "error", err)
		}
	}
	return c
}

// TrialProgram returns the version that is being tried; nil if none is known.
func TrialProgram(dir string) *Program {
	if s, err := load(dir); err == nil && s.Trial != nil {
		return &s.Trial.Program
	}
	return nil
}

func (s *state) choose(dir, program string, log *slog.Logger) Choice {
	if s.Current == nil {
		return Choice{}
	}
	path := programOf(dir, s.Current.SHA256)
	if fetched(dir, program) {
		if filepath.Base(program) != filepath.Base(path) {
			return Choice{}
		}
		return Choice{Version: s.Current}
	}
	if s.start(log); s.Current == nil {
		return Choice{}
	}
	path = programOf(dir, s.Current.SHA256)
	now, err := fingerprint(program)
	byHand := err != nil || now != s.Installed
	tooOld := s.Current.Format > release.Format // for the files that the version in use has written
	if byHand && !tooOld {
		log.Warn("another program was installed by hand, using that", "instead_of", s.Current.Version, "error", err)
		s.Current, s.Probation = nil, nil
		return Choice{}
	}
	if byHand {
		log.Warn("a program was installed by hand that cannot read the agent's files, going on with the version in use",
			"version", s.Current.Version)
	}
	if err := verify(path, s.Current.SHA256); err != nil {
		log.Error("cannot use the fetched version, using the installed program", "version", s.Current.Version,
			"error", err)
		if !tooOld {
			s.goBack(nil, fmt.Sprintf("version %s cannot be used any more, and the host went back to the installed "+
				"program: %v", s.Current.Version, err))
		}
		return Choice{}
	}
	return Choice{Run: path, Version: s.Current}
}

// start counts a start of the version in use. It returns to the former one if there were too many during the probation,
// unless that one cannot read the files of this one.
func (s *state) start(log *slog.Logger) {
	p := s.Probation
	if p == nil {
		return
	}
	format := release.Format
	if p.Former != nil {
		format = p.Former.Format
	}
	if p.Starts < mostStarts || s.Current.Format > format {
		s.Probation = &Probation{Former: p.Former, Starts: min(p.Starts+1, mostStarts)}
		return
	}
	text := fmt.Sprintf("version %s proved itself, and the host went back later: it was started %d times, "+
		"and never ran for %v", s.Current.Version, p.Starts, lasting)
	log.Error("going back to the former version of the agent", "used", s.Current.Version, "error", text)
	s.goBack(p.Former, text)
}

// goBack gives up the version in use, long after its trial. The next agent tells why.
func (s *state) goBack(former *Program, text string) {
	verdict := Verdict{Version: s.Current.Version, Fault: process.Failed, Untold: true, Text: text}
	if s.Verdict != nil {
		verdict.Item = s.Verdict.Item
	}
	s.Current, s.Probation, s.Verdict = former, nil, &verdict
}

func wentBack(version, why string) string {
	return fmt.Sprintf("version %s did not prove itself, and the host went back: %s", version, why)
}
