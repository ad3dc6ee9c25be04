// Command herald is a process that notifies its supervisor as its arguments say, one after another:
//
//	await FILE       wait until the file exists
//	say TEXT         send TEXT to NOTIFY_SOCKET; a comma stands for a newline
//	tell TEXT        say TEXT and wait until it is read, as sd_notify_barrier(3) does
//	repeat N TEXT    send TEXT N times, 10 ms apart
//	flood TEXT       send TEXT for ever, as fast as it can
//	signal FD        write a newline to a descriptor and close it
//	mark FILE        make a file
//	heir ARGS...     start a child with these arguments, name it as the main process and end
//	onhup TEXT TEXT  at each SIGHUP send both texts, one after another
//	hold             wait for ever
package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "herald:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	for len(args) > 0 {
		verb := args[0]
		args = args[1:]
		take := func(n int) (taken []string) {
			taken, args = args[:n], args[n:]
			return taken
		}
		var err error
		switch verb {
		case "await":
			await(take(1)[0])
		case "say":
			err = say(take(1)[0])
		case "tell":
			err = tell(take(1)[0])
		case "repeat":
			err = repeat(take(2))
		case "flood":
			for text := take(1)[0]; ; {
				_ = say(text) // whatever becomes of it
			}
		case "signal":
			err = write(take(1)[0])
		case "mark":
			err = os.WriteFile(take(1)[0], nil, 0o600)
		case "heir":
			return heir(args)
		case "onhup":
			go onHUP(take(2))
		case "hold":
			never := make(chan os.Signal, 1)
			signal.Notify(never, syscall.SIGUSR2) // without a handler the runtime sees a deadlock
			for range never {
				continue
			}
		default:
			err = fmt.Errorf("unknown word %q", verb)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func await(file string) {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for range tick.C {
		if _, err := os.Stat(file); err == nil {
			return
		}
	}
}

func say(text string) error {
	conn, err := net.Dial("unixgram", os.Getenv("NOTIFY_SOCKET"))
	if err != nil {
		return err
	}
	defer conn.Close()
	_, err = conn.Write([]byte(strings.ReplaceAll(text, ",", "\n")))
	return err
}

func tell(text string) error {
	if err := say(text); err != nil {
		return err
	}
	read, write, err := os.Pipe()
	if err != nil {
		return err
	}
	defer read.Close()
	socket, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_DGRAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer syscall.Close(socket)
	err = syscall.Sendmsg(socket, []byte("BARRIER=1"), syscall.UnixRights(int(write.Fd())),
		&syscall.SockaddrUnix{Name: os.Getenv("NOTIFY_SOCKET")}, 0)
	if err := errors.Join(err, write.Close()); err != nil {
		return err
	}
	_, err = io.ReadAll(read)
	return err
}

func repeat(args []string) error {
	n, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for range n {
		_ = say(args[1]) // while nobody listens, too
		<-tick.C
	}
	return nil
}

func write(number string) error {
	fd, err := strconv.Atoi(number)
	if err != nil {
		return err
	}
	file := os.NewFile(uintptr(fd), "ready")
	if _, err := file.WriteString("\n"); err != nil {
		return err
	}
	return file.Close()
}

func heir(args []string) error {
	child := exec.Command(os.Args[0], args...)
	child.Stdout, child.Stderr = os.Stdout, os.Stderr
	child.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := child.Start(); err != nil {
		return err
	}
	return say("MAINPID=" + strconv.Itoa(child.Process.Pid))
}

func onHUP(texts []string) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGHUP)
	for range signals {
		for _, text := range texts {
			if err := say(text); err != nil {
				fmt.Fprintln(os.Stderr, "herald:", err)
			}
		}
	}
}
