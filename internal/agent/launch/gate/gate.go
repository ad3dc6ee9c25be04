// Package gate has the program that a child executes first: the gate. It holds the child until its agent has recorded
// the child, and then becomes the command. The program is some 250 bytes of machine code (ADR 0048): to execute it
// costs a tenth of what a shell costs. All that it does are the system calls of a Script.
package gate

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// UnrunStatus is the exit status of a gate that ends before its command: a call has failed, or nobody opened the gate.
const UnrunStatus = 125

// text returns the address of the code in this program.
func text() uintptr

// theEnd marks the end of the code, in the order of bytes of both architectures.
const theEnd = "end-gate"

// code returns the machine code of the gate.
func code() ([]byte, error) {
	const most = 1024
	all := unsafe.Slice((*byte)(unsafe.Add(unsafe.Pointer(nil), text())), most) //nolint:gosec // the text of this program
	code, _, found := bytes.Cut(all, []byte(theEnd))
	if !found {
		return nil, errors.New("the code of the gate has no end")
	}
	return code, nil
}

// image returns the program: headers (elf(5)) and the code. It is loaded as a whole, at one address.
func image() ([]byte, error) {
	code, err := code()
	if err != nil {
		return nil, err
	}
	const at, header, segment = 0x400000, 64, 56
	const entry = header + 2*segment
	machine := map[string]uint16{"amd64": 62, "arm64": 183}[runtime.GOARCH]
	size := uint64(entry + len(code))
	var b bytes.Buffer
	b.WriteString("\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00")
	write := func(values ...any) {
		for _, v := range values {
			_ = binary.Write(&b, binary.LittleEndian, v) // a buffer takes all
		}
	}
	const executable, current = uint16(2), uint32(1)
	write(executable, machine, current, uint64(at+entry), uint64(header), uint64(0), uint32(0),
		uint16(header), uint16(segment), uint16(2), uint16(0), uint16(0), uint16(0))
	const load, stack = uint32(1), uint32(0x6474e551)
	const execute, writable, readable = uint32(1), uint32(2), uint32(4)
	write(load, readable|execute, uint64(0), uint64(at), uint64(at), size, size, uint64(0x10000))
	write(stack, readable|writable, uint64(0), uint64(0), uint64(0), uint64(0), uint64(0), uint64(16))
	b.Write(code)
	return b.Bytes(), nil
}

// Open returns the gate as an open file, to be executed by its Path. It is a file in memory. Where the kernel or a
// security module executes no such file (vm.memfd_noexec), it is a file in dir without a name. The error says why
// neither can be executed.
func Open(dir string) (*os.File, error) {
	program, err := image()
	if err != nil {
		return nil, err
	}
	file, err := inMemory(program)
	if err == nil {
		return file, nil
	}
	file, fileErr := onDisk(program, dir)
	if fileErr != nil {
		return nil, fmt.Errorf("cannot execute the gate, which starts all commands: from memory: %w; from %s: %w",
			err, dir, fileErr)
	}
	return file, nil
}

// name is part of the name of the file of every gate.
const name = "drover-gate"

// Is reports whether an executable, as proc_pid_exe(5) names it, is a gate. Its process runs no command yet.
func Is(exe string) bool { return strings.Contains(filepath.Base(exe), name) }

// Path is the name by which a process that has a gate open at a descriptor executes it.
func Path(fd uintptr) string { return "/proc/self/fd/" + strconv.FormatUint(uint64(fd), 10) }

func inMemory(program []byte) (*os.File, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING|unix.MFD_EXEC)
	if errors.Is(err, unix.EINVAL) { // Linux before 6.3
		fd, err = unix.MemfdCreate(name, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	}
	if err != nil {
		return nil, os.NewSyscallError("memfd_create", err)
	}
	file := os.NewFile(uintptr(fd), name)
	_, err = file.Write(program)
	if err == nil {
		_, err = unix.FcntlInt(file.Fd(), unix.F_ADD_SEALS,
			unix.F_SEAL_SEAL|unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_WRITE)
	}
	if err == nil {
		err = try(file)
	}
	if err != nil {
		_ = file.Close()
		return nil, err
	}
	return file, nil
}

func onDisk(program []byte, dir string) (*os.File, error) {
	written, err := os.CreateTemp(dir, name+"-*")
	if err != nil {
		return nil, err
	}
	defer os.Remove(written.Name()) //nolint:errcheck // a file that stays does no harm
	_, err = written.Write(program)
	if err == nil {
		err = written.Chmod(0o755)
	}
	if closeErr := written.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return nil, err
	}
	file, err := os.Open(written.Name())
	if err != nil {
		return nil, err
	}
	if err := try(file); err != nil {
		_ = file.Close()
		return nil, err
	}
	return file, nil
}

// try executes a gate without a script.
func try(file *os.File) error {
	path := Path(file.Fd())
	for {
		pid, err := syscall.ForkExec(path, []string{"drover-gate"}, &syscall.ProcAttr{})
		if errors.Is(err, syscall.ETXTBSY) { // a child that is about to execute its program still has the file open
			runtime.Gosched()
			continue
		}
		if err != nil {
			return os.NewSyscallError("execve", err)
		}
		var status syscall.WaitStatus
		for {
			_, err = syscall.Wait4(pid, &status, 0, nil)
			if !errors.Is(err, syscall.EINTR) {
				break
			}
		}
		if err == nil && status.ExitStatus() != UnrunStatus { // an error means that somebody else has reaped it
			return fmt.Errorf("the gate ended with status %#x", int(status))
		}
		return nil
	}
}
