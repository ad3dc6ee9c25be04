package gate

import (
	"encoding/binary"
	"fmt"
	"math"

	"golang.org/x/sys/unix"
)

// The size of a script and of its steps in bytes. A pipe takes a script at once (PIPE_BUF).
const size, stepSize = 4096, 64

// Script is what a gate does: system calls, one after the other. The zero Script is empty. A gate reads it from its
// standard input. Strings and steps of all calls must fit in 4 KiB.
type Script struct {
	steps []step
	data  []byte
}

// step is a system call. Its numbers have the layout of the code of the gate.
type step struct {
	number    int64
	arguments [4]Argument
	least     int64
	failed    string
}

// Argument is an argument of a call.
type Argument struct {
	kind  uint64
	value int64
}

// The kinds of an argument: a number; the address of a byte of the script; an address relative to the stack
// pointer; and the pointer at that address.
const number, ofScript, ofStack, atStack = 0, 1, 2, 3

// store is the number of a step that is no call: it writes its second argument to the address of its first.
const store = -1

// wordSize is the size of a pointer in bytes.
const wordSize = 8

// Number is a number.
func Number[N int | uint32 | uintptr](n N) Argument { return Argument{number, int64(n)} } //nolint:gosec // bits are kept

// Arg is the address of the string that is argument i of the gate, and Vector the address of the pointers to argument i
// and to all after it. Both count from 0.
func Arg(i int) Argument { return Argument{atStack, wordSize * int64(i+1)} }

// Vector is the pointer to argument i and to those after it, as execve(2) takes them.
func Vector(i int) Argument { return Argument{ofStack, wordSize * int64(i+1)} }

// Environment is the pointer to the environment of a gate with so many arguments.
func Environment(arguments int) Argument { return Vector(arguments + 1) }

// Room is the address of so many zero bytes, which belong to no argument and to no script.
func Room(bytes int) Argument { return Argument{ofStack, -int64(2*size + aligned(bytes))} }

// Plus is the address so many bytes after an address.
func (a Argument) Plus(bytes int) Argument { return Argument{a.kind, a.value + int64(bytes)} }

// Text returns a string that ends with a null byte, as the kernel takes it.
func (s *Script) Text(text string) Argument { return s.Bytes(append([]byte(text), 0)) }

// Bytes returns the address of bytes.
//
//go:noinline // its many callers would grow the agent by kilobytes, as with Must
func (s *Script) Bytes(b []byte) Argument {
	s.data = append(s.data, make([]byte, aligned(len(s.data))-len(s.data))...)
	s.data = append(s.data, b...)
	return Argument{ofScript, int64(len(s.data) - len(b))}
}

// aligned returns where structures of the kernel may begin.
func aligned(n int) int { return (n + wordSize - 1) &^ (wordSize - 1) }

// Must adds a call. If it returns less than least, the gate writes failed to its standard error, and ends unrun.
//
//go:noinline // see Bytes
func (s *Script) Must(failed string, least int64, call int64, arguments ...Argument) {
	st := step{number: call, least: least, failed: failed}
	copy(st.arguments[:], arguments)
	s.steps = append(s.steps, st)
}

// May adds a call that may fail.
func (s *Script) May(call int64, arguments ...Argument) {
	s.Must("", math.MinInt64, call, arguments...)
}

// Put adds a step that writes a pointer to memory.
func (s *Script) Put(at, pointer Argument) { s.May(store, at, pointer) }

// Room returns how many bytes of strings still fit beside so many further calls.
func (s *Script) Room(calls int) int {
	used := stepSize*(len(s.steps)+calls) + aligned(len(s.data))
	for _, st := range s.steps {
		used += len(st.failed)
	}
	return size - used
}

// Encode returns the bytes for the gate.
func (s *Script) Encode() ([]byte, error) {
	data, begin := s.data, stepSize*len(s.steps)
	b := make([]byte, 0, size)
	for _, st := range s.steps {
		var kinds uint64
		values := [4]int64{}
		for i, a := range st.arguments {
			kinds |= a.kind << (2 * i)
			values[i] = a.value
			if a.kind == ofScript {
				values[i] += int64(begin)
			}
		}
		b = binary.LittleEndian.AppendUint64(b, uint64(st.number)) //nolint:gosec // bits are kept
		b = binary.LittleEndian.AppendUint64(b, kinds)
		for _, v := range append(values[:], st.least) {
			b = binary.LittleEndian.AppendUint64(b, uint64(v)) //nolint:gosec // as above
		}
		b = binary.LittleEndian.AppendUint32(b, uint32(begin+len(data))) //nolint:gosec // within a script
		b = binary.LittleEndian.AppendUint32(b, uint32(len(st.failed)))  //nolint:gosec // within a script
		data = append(data, st.failed...)
	}
	if b = append(b, data...); len(b) > size {
		return nil, fmt.Errorf("the script of a gate has %d bytes, want at most %d", len(b), size)
	}
	return append(b, make([]byte, size-len(b))...), nil
}

// NoError is the least result of a call that has succeeded.
const NoError = 0

// Exit adds the end of the gate.
func (s *Script) Exit(status int) { s.May(unix.SYS_EXIT_GROUP, Number(status)) }
