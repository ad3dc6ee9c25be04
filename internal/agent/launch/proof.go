package launch

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// The states of a proof, one byte: the command was made, or it has passed its gate. Another state is no proof.
const (
	made   = '-'
	passed = '\n'
)

// slotSize is the size of a proof in bytes: its state and the id of its run.
const slotSize = 64

// maxProofs bounds the file of the proofs, in bytes: 262,144 commands at the same time. A longer file is damaged.
const maxProofs = slotSize << 18

// Proofs are what tells the next agent which commands have passed their gates. They stand in slots of one file, so that
// a launch neither makes nor removes a file: file systems are slow at that where thousands come and go. The file is
// independent of everything that a command or its account writes or can access. Proofs are safe for concurrent use, by
// one agent at a time.
type Proofs struct {
	file *os.File

	mu sync.Mutex
	// slots has the offset of each proof, free those without one.
	slots map[string]int
	free  []int
	// end is the offset of the next new slot.
	end int
}

// OpenProofs opens the file of the proofs, and makes it if there is none.
func OpenProofs(path string) (*Proofs, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("cannot open the proofs of commands: %w", err)
	}
	data, err := readProofs(f)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("cannot read the proofs of commands: %w", err), f.Close())
	}
	p := &Proofs{file: f, slots: map[string]int{}}
	for ; p.end < len(data); p.end += slotSize {
		if id, ok := idOf(string(data[p.end:min(p.end+slotSize, len(data))])); ok {
			p.slots[id] = p.end
		} else {
			p.free = append(p.free, p.end)
		}
	}
	return p, nil
}

// readProofs reads a file of proofs, and cuts it at its bound. What it cuts is lost: see Ran.
func readProofs(f *os.File) ([]byte, error) {
	info, err := f.Stat()
	if err == nil && info.Size() > maxProofs {
		err = f.Truncate(maxProofs)
	}
	if err != nil {
		return nil, err
	}
	return io.ReadAll(io.LimitReader(f, maxProofs))
}

// idOf returns the run whose proof a slot has. An id is a file name, also after damage to the file.
func idOf(slot string) (id string, ok bool) {
	if len(slot) < slotSize || slot[0] != made && slot[0] != passed {
		return "", false
	}
	id = strings.TrimRight(slot[1:], "\x00")
	return id, id != "" && id[0] != '.' && !strings.ContainsAny(id, "/\x00")
}

// Close closes the file.
func (p *Proofs) Close() error { return p.file.Close() }

// Create makes the proof of a run whose command has not passed its gate, in place of an earlier one, and returns the
// file for Command.Proof. It takes the room for what the gate writes, so that the gate can write it on a full disk. An
// id has at most 63 bytes.
func (p *Proofs) Create(id string) (*os.File, error) {
	slot := make([]byte, slotSize)
	slot[0] = made
	if copy(slot[1:], id) < len(id) {
		return nil, fmt.Errorf("cannot create the proof of a command: the id %q has more than %d bytes", id, slotSize-1)
	}
	// It has an offset of its own. The name may be gone, but the file is not.
	f, err := os.OpenFile("/proc/self/fd/"+strconv.Itoa(int(p.file.Fd())), os.O_WRONLY, 0)
	if err != nil {
		return nil, fmt.Errorf("cannot create the proof of a command: %w", err)
	}
	at := p.take(id)
	if at >= maxProofs {
		err = errors.New("too many commands are under way")
	} else {
		_, err = f.WriteAt(slot, int64(at))
	}
	if err == nil {
		_, err = f.Seek(int64(at), 0)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("cannot create the proof of a command: %w", err), f.Close(), p.Remove(id))
	}
	return f, nil
}

// take gives a run a slot.
func (p *Proofs) take(id string) (at int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	at, known := p.slots[id]
	switch {
	case known:
	case len(p.free) > 0:
		at, p.free = p.free[0], p.free[1:] // the one that was free for longest
	default:
		at = p.end
		p.end = min(at+slotSize, maxProofs)
	}
	p.slots[id] = at
	return at
}

// Ran reports by its proof whether the command of a run has passed its gate. While the agent that started the command
// lives, nobody needs to ask. Afterwards only the proof can tell a command that never ran from one that has ended. If
// the proof is lost, the command may have run, and must not run again.
func (p *Proofs) Ran(id string) bool {
	p.mu.Lock()
	at, known := p.slots[id]
	p.mu.Unlock()
	state := []byte{passed}
	if known {
		_, _ = p.file.ReadAt(state, int64(at)) // what cannot be read is lost
	}
	return state[0] == passed
}

// Remove removes the proof of a run if there is one.
func (p *Proofs) Remove(id string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	at, known := p.slots[id]
	if !known {
		return nil
	}
	delete(p.slots, id)
	if at >= maxProofs { // Create has refused it
		return nil
	}
	p.free = append(p.free, at)
	if _, err := p.file.WriteAt([]byte{0}, int64(at)); err != nil {
		return fmt.Errorf("cannot remove the proof of a command: %w", err)
	}
	return nil
}

// IDs returns the runs that have a proof.
func (p *Proofs) IDs() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	ids := make([]string, 0, len(p.slots))
	for id := range p.slots {
		ids = append(ids, id)
	}
	return ids
}
