package upgrade

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime"
	"slices"
	"strconv"
	"syscall"
	"time"

	"drover/internal/agent/instance"
	"drover/internal/agent/procfs"
	"drover/internal/process"
)

// ProveFlag is the flag of 'drover-agent run' that tells a program that it is being tried, with the descriptor for its
// proofs. Every version must know it.
const ProveFlag = "prove"

// proveFD is the descriptor that a program under trial gets.
const proveFD = 3

// Judge watches over a trial. It is part of the former program, so no fault of the new one can disable it.
type Judge struct {
	// Dir is the directory of the agent, Args are the arguments of the agent without the name of the program.
	Dir  string
	Args []string
	// Within is how long the new program may take to prove itself. After its first proof it must live for Settle, and
	// in one such span within the time it may use at most MostCPU of a processor.
	Within, Settle time.Duration
	MostCPU        float64
	Before         []Sight
	FS             procfs.FS
	Log            *slog.Logger
}

// The bounds of a trial that are not settings.
const (
	Settle  = 5 * time.Second
	MostCPU = 0.3
	// stopTime is how long a program may take to stop.
	stopTime = 15 * time.Second
	// longestProof is in bytes.
	longestProof = 8 << 20
	// freshProof is how old the last proof may be: the program repeats it each proveEvery.
	freshProof = 4 * proveEvery
	lookEvery  = 100 * time.Millisecond
)

// Try runs the program under trial as a child of this process, and returns the program that must go on in the place of
// this one. The agent of this process must have ended and closed its files. It returns an empty path if ctx ends: then
// this process has to end. Whatever happens, no child is left.
func (j *Judge) Try(ctx context.Context) (next string) {
	s, err := load(j.Dir)
	if err != nil || s.Trial == nil {
		j.Log.Error("no version to try", "error", err)
		return own()
	}
	t := *s.Trial
	s.Trial = nil
	if why := j.watch(ctx, &t); why != nil {
		s.Verdict = &Verdict{
			Item: t.Item, Version: t.Version, Fault: process.Failed, Text: wentBack(t.Version, why.Error()),
		}
		j.Log.Error("going back to this version of the agent", "tried", t.Version, "error", why)
		if err := save(j.Dir, s); err != nil {
			j.Log.Error("cannot note the end of a trial, the next start does", "error", err)
		}
		if ctx.Err() != nil {
			return ""
		}
		return own()
	}
	s.Probation = &Probation{Former: s.Current}
	s.Current, s.Signed = &t.Program, max(s.Signed, t.Signed)
	s.Verdict = &Verdict{Item: t.Item, Version: t.Version, Text: "upgraded to version " + t.Version}
	if program, err := self(); err == nil && !fetched(j.Dir, program) {
		// Unknown is a fingerprint, too: then the installed program goes on at the next start.
		s.Installed, _ = fingerprint(program)
	}
	if err := save(j.Dir, s); err != nil {
		j.Log.Error("cannot note that a version has proven itself, going back", "version", t.Version, "error", err)
		return own()
	}
	j.Log.Info("the new version of the agent has proven itself", "version", t.Version)
	if ctx.Err() != nil {
		return "" // whoever stopped the agent meant this process; the next start runs the version
	}
	return programOf(j.Dir, t.SHA256)
}

// own returns a path at which the program of this process is. The path by its name keeps the name of the process.
func own() string {
	const always = "/proc/self/exe"
	path, err := self()
	if err != nil {
		return always
	}
	here, err := os.Stat(path)
	program, problem := os.Stat(always)
	if err != nil || problem != nil || !os.SameFile(here, program) {
		return always
	}
	return path
}

// watch runs the program until the judgement, and returns why it has failed. It ends the program in any case.
func (j *Judge) watch(ctx context.Context, t *Trial) error {
	path := programOf(j.Dir, t.SHA256)
	if err := verify(path, t.SHA256); err != nil {
		return err
	}
	child, proofs, err := j.start(path)
	if err != nil {
		return fmt.Errorf("cannot start it: %w", err)
	}
	defer proofs.Close()
	watching, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	ended, lines := make(chan string, 1), make(chan []byte, 1)
	go reap(watching, child.Pid, ended)
	go read(proofs, lines)
	why := j.judge(ctx, child, ended, lines)
	if why == nil {
		_ = child.Signal(syscall.SIGTERM) // it ends as for any stop
	} else {
		_ = child.Kill() // package os uses a pidfd
	}
	limit := time.NewTimer(stopTime)
	defer limit.Stop()
	select {
	case <-ended:
	case <-limit.C:
		_ = child.Kill()
		<-ended
	}
	return errors.Join(why, child.Release())
}

// start starts the program. The kernel ends it if this process ends before it.
func (j *Judge) start(path string) (child *os.Process, proofs *os.File, err error) {
	proofs, theirs, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	defer theirs.Close()
	args := append([]string{os.Args[0]}, j.Args...)
	args = append(args, "--"+ProveFlag+"="+strconv.Itoa(proveFD))
	started := make(chan error, 1)
	go func() {
		// The kernel means the end of the thread that has forked: this thread has to live as long as this process. A
		// goroutine that ends while it is locked would end its thread.
		runtime.LockOSThread()
		child, err = os.StartProcess(path, args, &os.ProcAttr{
			Files: []*os.File{os.Stdin, os.Stdout, os.Stderr, theirs},
			Sys:   &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL},
		})
		started <- err
		if err == nil {
			select {}
		}
	}()
	if err := <-started; err != nil {
		_ = proofs.Close()
		return nil, nil, err
	}
	return child, proofs, nil
}

// judge returns nil when the program has proven itself, else why it has not.
func (j *Judge) judge(ctx context.Context, child *os.Process, ended chan string, lines <-chan []byte) error {
	limit, look := time.NewTimer(j.Within), time.NewTicker(lookEvery)
	defer limit.Stop()
	defer look.Stop()
	missing, greedy := errors.New("it did not reach a server"), error(nil)
	unseen := slices.Clone(j.Before)
	var last time.Time
	var w window
	for {
		select {
		case how := <-ended:
			ended <- how
			return fmt.Errorf("it ended (%s)", how)
		case line := <-lines:
			if unseen, missing = j.sees(line, unseen); missing != nil {
				continue
			}
			if last = time.Now(); w.since.IsZero() {
				w = j.open(child)
			}
		case <-look.C:
			if missing != nil || time.Since(w.since) < j.Settle || time.Since(last) >= freshProof {
				continue
			}
			if greedy = j.economical(child, w); greedy == nil {
				return nil
			}
			w = j.open(child) // a start may take a processor for a while
		case <-limit.C:
			return fmt.Errorf("not within %v: %w", j.Within, cmp.Or(missing, greedy, errCeased))
		case <-ctx.Done():
			return errors.New("the agent was stopped during the trial")
		}
	}
}

// sees returns which processes the program has not seen yet, and which one of them lives. A process counts as seen for
// ever: a caller may unregister it during the trial.
func (j *Judge) sees(line []byte, unseen []Sight) ([]Sight, error) {
	var seen []Sight
	if err := json.Unmarshal(line, &seen); err != nil {
		return unseen, fmt.Errorf("its proof cannot be read: %w", err)
	}
	known := map[Sight]bool{}
	for _, s := range seen {
		known[s] = true
	}
	all := unseen
	unseen = nil
	for _, b := range all {
		if !known[b] {
			unseen = append(unseen, b)
		}
	}
	for _, b := range unseen {
		if j.FS.Same(b.Instance) {
			return unseen, fmt.Errorf("it does not see %s, which runs with pid %d", b.Process, b.Instance.PID)
		}
	}
	return unseen, nil
}

// errCeased says that there was a proof, but no later one.
var errCeased = errors.New("it ceased to prove itself")

// window is a span in which the use of the processor is measured: since a look at the program.
type window struct {
	since  time.Time
	before procfs.Stat
}

func (j *Judge) open(child *os.Process) window {
	before, _ := j.FS.Stat(child.Pid) // if it has ended, the next look says so
	return window{since: time.Now(), before: before}
}

// economical returns an error if the program has used too much of a processor in a window.
func (j *Judge) economical(child *os.Process, w window) error {
	after, err := j.FS.Stat(child.Pid)
	if err != nil {
		return fmt.Errorf("it ended after its proof: %w", err)
	}
	ticks := after.UserTicks + after.SystemTicks - w.before.UserTicks - w.before.SystemTicks
	if share := float64(ticks) / instance.TicksPerSecond / time.Since(w.since).Seconds(); share > j.MostCPU {
		return fmt.Errorf("it used %.0f %% of a processor after its proof, expected at most %.0f %%", 100*share,
			100*j.MostCPU)
	}
	return nil
}

// read passes on the lines of a pipe until its end. It always reads on, so that the writer never waits.
func read(from io.Reader, lines chan<- []byte) {
	scanner := bufio.NewScanner(from)
	scanner.Buffer(nil, longestProof)
	for scanner.Scan() {
		select {
		case lines <- bytes.Clone(scanner.Bytes()):
		default: // the next line says the same
		}
	}
}

// reap reaps the ended children of this process until ctx ends, and tells how the one with this pid has ended. The
// former agent has started the others, and nobody else can wait for them.
func reap(ctx context.Context, pid int, ended chan<- string) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		for {
			var status syscall.WaitStatus
			got, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
			if err != nil || got <= 0 {
				break
			}
			switch {
			case got != pid:
			case status.Signaled():
				ended <- "signal " + strconv.Itoa(int(status.Signal()))
			default:
				ended <- "exit status " + strconv.Itoa(status.ExitStatus())
			}
		}
	}
}
