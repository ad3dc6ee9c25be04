package durable

import (
	"fmt"
	"os"
)

// Held is a file that a program has open for long, and writes to.
type Held struct {
	path string
	info os.FileInfo
}

// Hold notes which file there is at a path. The caller has just opened it.
func Hold(path string) (Held, error) {
	info, err := os.Stat(path)
	return Held{path, info}, err
}

// Check fails if somebody has removed or replaced the file: what the program writes is then lost with its end.
func (h Held) Check() error {
	info, err := os.Stat(h.path)
	if err == nil && os.SameFile(info, h.info) {
		return nil
	}
	return fmt.Errorf("%s was removed or replaced while drover runs, so nothing is stored any more: "+
		"put the directory back and start drover again", h.path)
}
