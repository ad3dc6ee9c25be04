package process

import (
	"strconv"
	"strings"
)

// MaxCopies is the largest number of copies of one process.
const MaxCopies = 1000

// CopyName returns the name of a copy of a process, NAME@NUMBER. Numbers begin with 1.
func CopyName(name string, number int) string { return name + "@" + strconv.Itoa(number) }

// CutCopy returns the parts of the name of a copy. For every other name it returns the name and 0.
func CutCopy(name string) (base string, number int) {
	at := strings.LastIndexByte(name, '@')
	if at <= 0 {
		return name, 0
	}
	n, err := strconv.Atoi(name[at+1:])
	if err != nil || n < 1 || CopyName(name[:at], n) != name {
		return name, 0
	}
	return name[:at], n
}

// CopyOf returns the process and the number of a copy; 0 if the process is not a copy. Only a foreground process can be
// a copy: the names of the compatible APIs may look like the name of a copy.
func CopyOf(s *Spec, id ID) (of ID, number int) {
	if s == nil || !s.Foreground() {
		return id, 0
	}
	base, number := CutCopy(id.Name)
	return ID{Namespace: id.Namespace, Name: base}, number
}
