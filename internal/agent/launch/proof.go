package launch

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// The states of a proof, one byte: the command was made, or it has passed its gate.
const (
	made   = '-'
	passed = '\n'
)

// CreateProof makes the file that tells the next agent whether a command has passed its gate. It is independent of
// everything that the command writes or can access. It allocates the byte that the gate overwrites, so that the gate
// can write the proof on a full disk. It replaces an existing file.
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

// Ran reports by its proof whether a command has passed its gate. While the agent that started the command lives,
// nobody needs to ask. Afterwards only the proof can tell a command that never ran from one that has ended. If the
// proof is lost, the command may have run, and must not run again.
func Ran(path string) bool {
	text, err := os.ReadFile(path)
	return err != nil || len(text) != 1 || text[0] == passed
}
