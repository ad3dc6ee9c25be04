package launch

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"

	"golang.org/x/sys/unix"
)

// format is what the kernel reads of a file before it executes it.
type format struct {
	// header is the first line of a script, without #!.
	header string
	// loader is the program that loads an ELF file; empty if it needs none.
	loader string
	// fault says why nothing can execute the file, in a caller's words after its name; empty if nothing is known.
	fault string
}

// elfMagic begins an ELF file (elf(5)).
const elfMagic = "\x7fELF"

// formatOf reads the format of a file. What cannot be read is no fault.
func formatOf(file *os.File) (f format) {
	start := make([]byte, longestHeader)
	n, err := io.ReadFull(file, start)
	start = start[:n]
	switch line, _, _ := bytes.Cut(start, []byte("\n")); {
	case err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF):
	case n == 0:
		f.fault = "is empty"
	case bytes.HasPrefix(start, []byte("#!")):
		if len(line) < n { // else the kernel takes a part of the line
			f.header = string(line[len("#!"):])
		}
	case bytes.HasPrefix(start, []byte(elfMagic)):
		f.loader, f.fault = elfOf(file, start)
	case bytes.IndexByte(line, 0) >= 0 && !otherFormats(): // a shell takes a text for a script
		f.fault = "is no program of this machine and no script"
	}
	return f
}

// otherFormats reports whether the host may execute files of further formats, such as programs of other machines
// (https://docs.kernel.org/admin-guide/binfmt-misc.html).
func otherFormats() bool {
	const always = 2 // register and status
	entries, _ := os.ReadDir("/proc/sys/fs/binfmt_misc")
	return len(entries) > always
}

// openForWriting reports whether a process has a file open for writing, so that the kernel does not execute it. A lease
// tells it without a trace; who opens the file for writing meanwhile waits for an instant. False also means that this
// is unknown, as on a network file system, which may refuse every lease.
func openForWriting(file *os.File) bool {
	var system unix.Statfs_t
	local := []int64{unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC, unix.TMPFS_MAGIC}
	if unix.Fstatfs(int(file.Fd()), &system) != nil || !slices.Contains(local, system.Type) {
		return false
	}
	_, err := unix.FcntlInt(file.Fd(), unix.F_SETLEASE, unix.F_RDLCK)
	if err == nil {
		_, _ = unix.FcntlInt(file.Fd(), unix.F_SETLEASE, unix.F_UNLCK)
	}
	return errors.Is(err, unix.EAGAIN)
}

// Numbers of the formats of ELF files (elf(5)).
const (
	elf32, elf64       = 1, 2
	elfLittle          = 1
	elfExec, elfShared = 2, 3
	elfLoad, elfInterp = 1, 3
	// mostHeaders is the size of all program headers that the kernel reads, in bytes (fs/binfmt_elf.c).
	mostHeaders = 64 << 10
)

// machines are the machines whose programs a kernel may execute, by the machine of this program.
func machines() map[string][]uint16 {
	const i386, arm, amd64, arm64 = 3, 40, 62, 183
	return map[string][]uint16{"amd64": {amd64, i386}, "arm64": {arm64, arm}}
}

// nameOfMachine is the name of the machine of an ELF file.
func nameOfMachine(machine uint16) string {
	names := map[uint16]string{
		3: "386", 8: "mips", 20: "ppc", 21: "ppc64", 22: "s390x", 40: "arm", 62: "amd64", 183: "arm64", 243: "riscv64",
		258: "loong64",
	}
	if name, known := names[machine]; known {
		return name
	}
	return fmt.Sprintf("number %d of elf(5)", machine)
}

// elfOf returns the loader of an ELF file, and why the kernel would not execute the file.
func elfOf(file *os.File, start []byte) (loader, fault string) {
	least := 64 // the header of a 64-bit file
	if len(start) > 4 && start[4] == elf32 {
		least = 52
	}
	info, err := file.Stat()
	if err != nil || len(start) < least {
		return "", "is cut off"
	}
	order := binary.LittleEndian
	machine, native := order.Uint16(start[18:]), machines()[runtime.GOARCH]
	class := start[4]
	switch {
	case native == nil:
		return "", ""
	case start[5] != elfLittle || !slices.Contains(native, machine):
		if otherFormats() {
			return "", ""
		}
		if start[5] != elfLittle {
			machine = binary.BigEndian.Uint16(start[18:])
		}
		return "", fmt.Sprintf("is a program for %s, and this host is %s", nameOfMachine(machine), runtime.GOARCH)
	case order.Uint16(start[16:]) != elfExec && order.Uint16(start[16:]) != elfShared:
		return "", "is an ELF file, but no program"
	case class != elf32 && class != elf64:
		return "", "is a damaged ELF file"
	}
	table, size, count := int64(order.Uint32(start[28:])), int(order.Uint16(start[42:])), int(order.Uint16(start[44:]))
	if class == elf64 {
		table = int64(order.Uint64(start[32:])) //nolint:gosec // checked against the size of the file
		size, count = int(order.Uint16(start[54:])), int(order.Uint16(start[56:]))
	}
	headers := make([]byte, size*count)
	least32, least64 := 32, 56
	if len(headers) == 0 || len(headers) > mostHeaders || class == elf64 && size < least64 || size < least32 {
		return "", "is a damaged ELF file"
	}
	if _, err := file.ReadAt(headers, table); err != nil {
		return "", "is cut off"
	}
	for at := 0; at < len(headers); at += size {
		kind, offset, length := segment(headers[at:], class)
		switch {
		case kind != elfLoad && kind != elfInterp:
		case offset < 0 || length < 0 || offset+length > info.Size():
			return "", fmt.Sprintf("is cut off after %d bytes", info.Size())
		case kind == elfInterp && length > 1 && length <= unix.PathMax:
			name := make([]byte, length)
			if _, err := file.ReadAt(name, offset); err == nil {
				loader = string(bytes.TrimRight(name, "\x00"))
			}
		}
	}
	return loader, ""
}

// segment is what a program header says of a part of an ELF file: its kind, its place and its length in bytes.
func segment(header []byte, class byte) (kind uint32, offset, length int64) {
	order := binary.LittleEndian
	kind = order.Uint32(header)
	if class == elf64 {
		return kind, int64(order.Uint64(header[8:])), int64(order.Uint64(header[32:])) //nolint:gosec // the caller checks
	}
	return kind, int64(order.Uint32(header[4:])), int64(order.Uint32(header[16:]))
}
