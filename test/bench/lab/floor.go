package lab

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// FloorStage is the first argument with which a program is to call Supervise.
const FloorStage = "floor-supervisor"

// Floor is the least supervisor there can be, in a process of its own. It starts a child by ForkExec, and a daemon by
// ForkExec of /bin/sh -c. It watches what runs by pidfd on one locked thread, and starts it again at once. It keeps no
// state, no output, no control group and no limit.
type Floor struct {
	*Child
	socket string
}

// Floor starts the floor. With adopt it takes over daemons that run, and does not become their parent.
func (l *Lab) Floor(name string, specs []Spec, adopt bool) (*Floor, error) {
	data, err := json.Marshal(specs)
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
	f := &Floor{socket: l.Dir + "/" + name + ".sock"}
	_ = os.Remove(f.socket) // an earlier floor may have left it
	cmd := exec.Command(self, FloorStage, file, strconv.FormatBool(adopt), f.socket)
	f.Child, err = Start(cmd, l.Dir+"/"+name+".log")
	return f, err
}

// What the floor can be asked for. FloorRestart has the number of a process after it.
const (
	FloorStop    = "stop"
	FloorStart   = "start"
	FloorStatus  = "status"
	FloorRestart = "restart "
)

// Ask asks the floor for something and returns its answer, which comes when it is done: the last process has ended, all
// have been forked, or the new pid is known.
func (f *Floor) Ask(what string) (string, error) {
	conn, err := net.Dial("unix", f.socket)
	if err != nil {
		return "", fmt.Errorf("cannot ask the floor: %w", err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, what); err != nil {
		return "", fmt.Errorf("cannot ask the floor: %w", err)
	}
	answer, err := io.ReadAll(conn)
	if err == nil && len(answer) == 0 {
		err = errors.New("the floor says nothing")
	}
	return string(answer), err
}

// floor is the supervisor at work: what its descriptors stand for.
type floor struct {
	// poll and socket are descriptors: of the epoll set, and of the socket on which callers ask.
	poll, socket int
	waits        map[int32]wait
	specs        []Spec
	// main is the descriptor and the pid of each process, by its number.
	main []struct{ fd, pid int }
	// restarts has the connection that waits for the restart of a process, by its number. stop is the connection that
	// waits until none of those that are up is left; it is 0 if there is none.
	restarts map[int]int
	stop, up int
}

// wait is a process that is waited for: the command of an entry, or the process itself.
type wait struct {
	entry int
	main  bool
}

// Supervise is the life of the floor; args are those after FloorStage. It ends with the process.
func Supervise(args []string) error {
	runtime.LockOSThread()
	data, err := os.ReadFile(args[0])
	if err != nil {
		return err
	}
	f := &floor{waits: map[int32]wait{}, restarts: map[int]int{}}
	if err := json.Unmarshal(data, &f.specs); err != nil {
		return err
	}
	f.main = make([]struct{ fd, pid int }, len(f.specs))
	if f.poll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return err
	}
	begin := f.adopt
	if args[1] != "true" {
		begin = f.launch
		if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
			return err
		}
	}
	for i := range f.specs {
		if err := begin(i); err != nil {
			return err
		}
	}
	if err := f.listen(args[2]); err != nil {
		return err
	}
	return f.run()
}

// listen opens the socket.
func (f *floor) listen(path string) (err error) {
	if f.socket, err = unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0); err != nil {
		return fmt.Errorf("cannot listen: %w", err)
	}
	if err := unix.Bind(f.socket, &unix.SockaddrUnix{Name: path}); err != nil {
		return fmt.Errorf("cannot listen: %w", err)
	}
	if err := unix.Listen(f.socket, 1); err != nil {
		return fmt.Errorf("cannot listen: %w", err)
	}
	return f.await(f.socket)
}

func (f *floor) await(fd int) error {
	return unix.EpollCtl(f.poll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)})
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
			if int(ev.Fd) == f.socket {
				err = f.answer()
			} else {
				err = f.ended(ev.Fd)
			}
			if err != nil {
				return err
			}
		}
	}
}

// ended goes on after the end of what a descriptor stands for.
func (f *floor) ended(fd int32) error {
	w := f.waits[fd]
	delete(f.waits, fd)
	// Not a child where it was adopted.
	_ = unix.Waitid(unix.P_PIDFD, int(fd), nil, unix.WEXITED|unix.WNOHANG, nil)
	_ = unix.Close(int(fd)) // nothing was written
	switch {
	case !w.main:
		return f.adopt(w.entry)
	case f.stop == 0:
		return f.launch(w.entry)
	}
	f.main[w.entry].pid = 0
	if f.up--; f.up == 0 {
		say(f.stop, "stopped")
		f.stop = 0
	}
	return nil
}

// answer does what a caller asks for.
func (f *floor) answer() error {
	conn, _, err := unix.Accept4(f.socket, unix.SOCK_CLOEXEC)
	if err != nil {
		return fmt.Errorf("cannot hear: %w", err)
	}
	line := make([]byte, 100)
	n, err := unix.Read(conn, line)
	if err != nil {
		return fmt.Errorf("cannot hear: %w", err)
	}
	what := string(line[:n])
	switch number, restart := strings.CutPrefix(what, FloorRestart); {
	case restart:
		entry, err := strconv.Atoi(number)
		if err != nil || entry < 0 || entry >= len(f.main) {
			return fmt.Errorf("there is no process %q", number)
		}
		f.restarts[entry] = conn
		return f.end(entry)
	case what == FloorStop:
		f.stop, f.up = conn, len(f.main)
		for entry := range f.main {
			if err := f.end(entry); err != nil {
				return err
			}
		}
	case what == FloorStart:
		for entry := range f.main {
			if err := f.launch(entry); err != nil {
				return err
			}
		}
		say(conn, "started")
	case what == FloorStatus:
		var b strings.Builder
		for i, p := range f.main {
			fmt.Fprintf(&b, "%s %d\n", f.specs[i].Name, p.pid)
		}
		say(conn, b.String())
	default:
		return fmt.Errorf("cannot do %q", what)
	}
	return nil
}

// say answers and hangs up.
func say(conn int, answer string) {
	_, _ = unix.Write(conn, []byte(answer)) // the caller may have ended
	_ = unix.Close(conn)                    // likewise
}

// end asks a process to end.
func (f *floor) end(entry int) error {
	return unix.PidfdSendSignal(f.main[entry].fd, unix.SIGTERM, nil, 0)
}

// launch starts a process: a child itself, a daemon by its command.
func (f *floor) launch(entry int) error {
	words := strings.Fields(f.specs[entry].Run)
	daemon := len(words) == 0
	if daemon {
		words = []string{"/bin/sh", "-c", f.specs[entry].Start}
	}
	fd := -1
	null, err := unix.Open(os.DevNull, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(null) //nolint:errcheck // nothing was written
	pid, err := syscall.ForkExec(words[0], words, &syscall.ProcAttr{
		Files: []uintptr{uintptr(null), uintptr(null), uintptr(null)}, Env: os.Environ(),
		Sys: &syscall.SysProcAttr{Setsid: true, PidFD: &fd},
	})
	if err != nil {
		return fmt.Errorf("cannot start %q: %w", words, err)
	}
	return f.wait(fd, pid, wait{entry: entry, main: !daemon})
}

// adopt finds a daemon by its pid file.
func (f *floor) adopt(entry int) error {
	data, err := os.ReadFile(f.specs[entry].PIDFile)
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
	return f.wait(fd, pid, wait{entry: entry, main: true})
}

func (f *floor) wait(fd, pid int, w wait) error {
	f.waits[int32(fd)] = w
	if w.main {
		f.main[w.entry].fd, f.main[w.entry].pid = fd, pid
		if conn, asked := f.restarts[w.entry]; asked {
			delete(f.restarts, w.entry)
			say(conn, strconv.Itoa(pid))
		}
	}
	return f.await(fd)
}
