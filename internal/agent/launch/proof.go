package launch

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// What a proof holds, in place of each other: the command was made, and it has passed its gate.
const (
	made   = '-'
	passed = '\n'
)

// CreateProof makes the file that will tell a successor of the agent whether a command has passed its gate. It depends
// on nothing that the command writes or can reach. The room of what is written at the gate is taken here, so that a
// command whose proof was made can leave it on a disk that is full. One that is there already is made anew.
func CreateProof(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("cannot create the proof of a command: %w", err)
	}
	if _, err := f.WriteAt([]byte{made}, 0); err != nil {
		return nil, errors.Join(fmt.Errorf("cannot create the proof of a command: %w", err), f.Close(), os.Remove(path))
	}
	return f, nil
}

// Ran reports whether a command has passed its gate, by its proof. While the agent that started it lives nobody needs
// to ask; afterwards nothing else can tell a command that never ran from one that has ended. One whose proof is lost
// may have run, and must not run again.
func Ran(path string) bool {
	text, err := os.ReadFile(path)
	return err != nil || len(text) != 1 || text[0] == passed
}
