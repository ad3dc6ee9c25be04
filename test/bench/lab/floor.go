package lab

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// FloorStage is the first argument with which a program is to call Supervise.
const FloorStage = "floor-supervisor"

// Watched is what the floor supervises: a command line, and the pid file of the daemon that it starts; none where the
// command is the process itself.
type Watched struct {
	Line, PIDFile string
}

// Floor starts the least supervisor there can be: it starts each command by ForkExec of /bin/sh -c, watches what runs
// by pidfd on one locked thread, and starts it again at once. It keeps no state, no output, no control group and no
// limit. With adopt it takes over daemons that run, and does not become their parent.
func (l *Lab) Floor(name string, watched []Watched, adopt bool) (*Child, error) {
	data, err := json.Marshal(watched)
	if err != nil {
		return nil, fmt.Errorf("cannot tell the floor: %w", err)
	}
	file := l.Dir + "/" + name + ".json"
	if err := os.WriteFile(file, data, 0o600); err != nil {
		return nil, fmt.Errorf("cannot tell the floor: %w", err)
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return Start(exec.Command(self, FloorStage, file, strconv.FormatBool(adopt)), l.Dir+"/"+name+".log")
}

// floor is the supervisor at work: what its descriptors stand for.
type floor struct {
	poll    int
	waits   map[int32]wait
	watched []Watched
}

// wait is a process that is waited for: the command of an entry, or its daemon.
type wait struct {
	entry  int
	daemon bool
}

// Supervise is the life of the floor; args are those after FloorStage. It ends with the process.
func Supervise(args []string) error {
	runtime.LockOSThread()
	data, err := os.ReadFile(args[0])
	if err != nil {
		return err
	}
	f := &floor{waits: map[int32]wait{}}
	if err := json.Unmarshal(data, &f.watched); err != nil {
		return err
	}
	if f.poll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return err
	}
	adopt := args[1] == "true"
	if !adopt {
		if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
			return err
		}
	}
	for i := range f.watched {
		begin := f.launch
		if adopt {
			begin = f.adopt
		}
		if err := begin(i); err != nil {
			return err
		}
	}
	return f.run()
}

func (f *floor) run() error {
	events := make([]unix.EpollEvent, 64)
	for {
		n, err := unix.EpollWait(f.poll, events, -1)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return fmt.Errorf("cannot wait: %w", err)
		}
		for _, ev := range events[:n] {
			w := f.waits[ev.Fd]
			delete(f.waits, ev.Fd)
			// Not a child where it was adopted.
			_ = unix.Waitid(unix.P_PIDFD, int(ev.Fd), nil, unix.WEXITED|unix.WNOHANG, nil)
			_ = unix.Close(int(ev.Fd)) // nothing was written
			again := f.launch
			if !w.daemon && f.watched[w.entry].PIDFile != "" {
				again = f.adopt
			}
			if err := again(w.entry); err != nil {
				return err
			}
		}
	}
}

func (f *floor) launch(entry int) error {
	fd := -1
	null, err := unix.Open(os.DevNull, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(null) //nolint:errcheck // nothing was written
	_, err = syscall.ForkExec("/bin/sh", []string{"/bin/sh", "-c", f.watched[entry].Line}, &syscall.ProcAttr{
		Files: []uintptr{uintptr(null), uintptr(null), uintptr(null)}, Env: os.Environ(),
		Sys: &syscall.SysProcAttr{Setsid: true, PidFD: &fd},
	})
	if err != nil {
		return fmt.Errorf("cannot start %q: %w", f.watched[entry].Line, err)
	}
	return f.wait(fd, wait{entry: entry})
}

func (f *floor) adopt(entry int) error {
	data, err := os.ReadFile(f.watched[entry].PIDFile)
	if err != nil {
		return fmt.Errorf("cannot find the daemon: %w", err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(data)))
	if err != nil {
		return fmt.Errorf("cannot find the daemon: %w", err)
	}
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return f.launch(entry)
	}
	if err != nil {
		return fmt.Errorf("cannot watch the daemon: %w", err)
	}
	return f.wait(fd, wait{entry: entry, daemon: true})
}

func (f *floor) wait(fd int, w wait) error {
	f.waits[int32(fd)] = w
	return unix.EpollCtl(f.poll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)})
}

// Patience is how long anything may take before a benchmark gives up.
const Patience = 90 * time.Second
