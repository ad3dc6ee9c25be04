package usage

import (
	"encoding/binary"
	"errors"
	"io"
	"math"
	"strings"

	"drover/internal/process"
)

// fileForm begins a file with histories; the boot id and a newline follow.
const fileForm = "drover usage 1 "

// mostSaved is the size of the largest file with histories, in bytes: that of some 35,000 processes.
const mostSaved = 64 << 20

// savedSize is the size of a history in a file, in bytes, after the name. Fine steps are not saved.
const savedSize = 3*8 + 4*(shortCells+longCells)

// errForm says that a file has no histories of this boot.
var errForm = errors.New("it has no histories of this boot")

// Save writes the histories. They are valid until the machine boots again: their times are since boot.
func (b *Book) Save(w io.Writer, boot string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	data := append([]byte(fileForm+boot), '\n')
	for id, h := range b.of {
		if len(data) > mostSaved {
			break
		}
		for _, text := range []string{id.Namespace, id.Name} {
			data = append(binary.AppendUvarint(data, uint64(len(text))), text...)
		}
		for _, n := range []uint64{h.startTicks, uint64(h.short.slot), uint64(h.long.slot)} { //nolint:gosec // not below 0
			data = binary.LittleEndian.AppendUint64(data, n)
		}
		for _, c := range h.cells {
			data = binary.LittleEndian.AppendUint32(data, uint32(c))
		}
	}
	_, err := w.Write(data)
	return err
}

// Load adds the histories of an earlier agent. It adds none if the machine has booted since, or if the file is damaged.
func (b *Book) Load(data []byte, boot string) error {
	rest, found := strings.CutPrefix(string(data[:min(len(data), len(fileForm)+len(boot)+1)]), fileForm)
	if !found || rest != boot+"\n" {
		return errForm
	}
	data = data[len(fileForm)+len(rest):]
	of := map[process.ID]*history{}
	for len(data) > 0 {
		var id process.ID
		for _, text := range []*string{&id.Namespace, &id.Name} {
			size, n := binary.Uvarint(data)
			if n <= 0 || size > uint64(len(data)-n) {
				return io.ErrUnexpectedEOF
			}
			*text, data = string(data[n:n+int(size)]), data[n+int(size):] //nolint:gosec // at most len(data)
		}
		if len(data) < savedSize {
			return io.ErrUnexpectedEOF
		}
		h := &history{startTicks: binary.LittleEndian.Uint64(data)}
		for i := range h.cells {
			h.cells[i] = cell(binary.LittleEndian.Uint32(data[3*8+4*i:]))
		}
		slot := func(at int) int64 { return int64(binary.LittleEndian.Uint64(data[at:]) & math.MaxInt64) } //nolint:gosec // masked
		h.short, h.long = resume(h.cells[:shortCells], slot(8)), resume(h.cells[shortCells:], slot(16))
		of[id] = h
		data = data[savedSize:]
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.of = of
	return nil
}

// resume returns the newest step of a series again. Its CPU is that of later looks.
func resume(cells []cell, slot int64) fold {
	f := fold{slot: slot}
	s := f.at(cells, f.slot)
	f.memory, f.files, f.marked = s.Memory, int32(s.Files), s.Restarted //nolint:gosec // at most 19 bits
	return f
}
