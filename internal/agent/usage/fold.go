package usage

import (
	"math"
	"math/bits"
	"time"
)

// fold is the newest step of a series, which looks still add to. Earlier steps are cells.
type fold struct {
	// slot is the number of the step since boot, until how much of the step the looks have reached.
	slot  int64
	until time.Duration
	// used is the sum of CPU by time, in percent times nanoseconds, over the time covered.
	used    float64
	covered time.Duration
	memory  int64
	files   int32
	marked  bool
}

// add adds a look to the steps that it covers. A step gets its share of CPU, and the memory of the look.
func (f *fold) add(cells []cell, step time.Duration, l *Look, restarted bool) {
	first := int64(l.Since / step)
	for slot := first; time.Duration(slot)*step < l.At; slot++ {
		if slot < f.slot {
			continue
		}
		f.advance(cells, slot)
		begin := time.Duration(slot) * step
		end := min(l.At, begin+step)
		over := end - max(l.Since, begin)
		f.until = max(f.until, end-begin)
		f.used += l.CPU * float64(over)
		f.covered += over
		f.memory, f.files = max(f.memory, l.Memory), max(f.files, int32(min(l.Files, math.MaxInt32))) //nolint:gosec // in range
		f.marked = f.marked || restarted && slot == first
		cells[slot%int64(len(cells))] = f.cell()
	}
}

// advance begins a step. The steps between have no look.
func (f *fold) advance(cells []cell, slot int64) {
	if slot == f.slot {
		return
	}
	for missed := max(f.slot+1, slot-int64(len(cells))+1); missed < slot; missed++ {
		cells[missed%int64(len(cells))] = 0
	}
	*f = fold{slot: slot}
}

// at returns a step; its zero value if it is too old or has no look.
func (f *fold) at(cells []cell, slot int64) Step {
	if slot < 0 || slot > f.slot || slot <= f.slot-int64(len(cells)) {
		return Step{}
	}
	return cells[slot%int64(len(cells))].step()
}

func (f *fold) cell() cell {
	cpu := 0.0
	if f.covered > 0 {
		cpu = f.used / float64(f.covered)
	}
	return newCell(Step{CPU: cpu, Memory: f.memory, Files: int(f.files), Restarted: f.marked})
}

// cell is a step in 32 bits: memory in KiB, CPU in hundredths of a percent, and files, each with a mantissa and an
// exponent, and a mark. No step with a look is 0, because its memory is at least 1 KiB.
type cell uint32

// The widths of the parts of a cell, in bits.
const (
	memoryMantissa, memoryExponent = 8, 5
	cpuMantissa, cpuExponent       = 6, 4
	filesMantissa, filesExponent   = 4, 4

	cpuAt   = memoryMantissa + memoryExponent
	filesAt = cpuAt + cpuMantissa + cpuExponent
	markAt  = filesAt + filesMantissa + filesExponent
)

func newCell(s Step) cell {
	c := cell(pack(uint64(max(s.Memory>>10, 1)), memoryMantissa, memoryExponent)) | //nolint:gosec // not below 0
		cell(pack(uint64(min(max(s.CPU, 0), 100)*100+0.5), cpuMantissa, cpuExponent))<<cpuAt |
		cell(pack(uint64(max(s.Files, 0)), filesMantissa, filesExponent))<<filesAt //nolint:gosec // not below 0
	if s.Restarted {
		c |= 1 << markAt
	}
	return c
}

func (c cell) step() Step {
	if c == 0 {
		return Step{}
	}
	return Step{
		Memory:    int64(unpack(uint32(c), memoryMantissa, memoryExponent)) << 10, //nolint:gosec // at most 42 bits
		CPU:       float64(unpack(uint32(c>>cpuAt), cpuMantissa, cpuExponent)) / 100,
		Files:     int(unpack(uint32(c>>filesAt), filesMantissa, filesExponent)), //nolint:gosec // at most 19 bits
		Restarted: c>>markAt&1 == 1,
	}
}

// pack rounds a number to a mantissa and an exponent. A number that is too large becomes the largest.
func pack(v uint64, mantissa, exponent int) uint32 {
	one := uint64(1) << mantissa
	if v < one {
		return uint32(v) //nolint:gosec // less than the mantissa
	}
	shift := bits.Len64(v) - mantissa - 1
	if shift > 0 {
		v = v>>shift + v>>(shift-1)&1 // rounded
	}
	if v == 2*one {
		v, shift = one, shift+1
	}
	if shift+1 >= 1<<exponent {
		return 1<<(mantissa+exponent) - 1
	}
	return uint32(shift+1)<<mantissa | uint32(v-one) //nolint:gosec // small
}

// unpack is the reverse of pack, for the lowest bits of a cell.
func unpack(c uint32, mantissa, exponent int) uint64 {
	m, e := uint64(c)&(1<<mantissa-1), uint64(c)>>mantissa&(1<<exponent-1)
	if e == 0 {
		return m
	}
	return (1<<mantissa + m) << (e - 1)
}
