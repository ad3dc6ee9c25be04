package wire

import (
	"encoding/json"
	"fmt"
)

// What an agent says is read by servers that have not long to live if any of them believes how large it is: three bytes of JSON can ask for
// hundreds in memory. So it is counted before it is read.
const (
	// MaxReport is the largest report in bytes: what agents gather for one, and its last entry.
	MaxReport = 1 << 20
	// MaxSpec is the largest spec in bytes, so that one fits into a report beside all else.
	MaxSpec = 512 << 10
	// MaxWeight is the largest Weight of a report or a receipt.
	MaxWeight = 16 << 20
	// maxName is the longest session, place, proof and name of what is trusted in a report, in bytes: they are remembered, and compared.
	maxName = 255
	// maxEntries is how many entries of a kind a report may have, or a receipt: twice what agents and servers put there.
	maxEntries = 1000
)

// Weight is about how many bytes of memory a message takes at most while it is read. It is told without reading it.
func Weight(data []byte) int64 {
	weight, _ := count(data)
	return weight
}

// count returns the Weight of a JSON text, and how many entries the longest of those lists and objects has at most that are its fields.
func count(text []byte) (weight int64, longest int) {
	const perByte, perValue, perObject = 2, 80, 512
	const field = 2 // the depth of what is in a field
	values, objects, entries := 0, 0, 0
	depth, quoted, escaped := 0, false, false
	for _, c := range text {
		switch {
		case escaped:
			escaped = false
		case quoted:
			escaped, quoted = c == '\\', c != '"'
		case c == '"':
			quoted = true
		case c == '{' || c == '[':
			values++
			if c == '{' {
				objects++
			}
			if depth++; depth == field {
				entries = 1
			}
		case c == '}' || c == ']':
			if depth == field {
				longest = max(longest, entries)
			}
			depth--
		case c == ',':
			values++
			if depth == field {
				entries++
			}
		}
	}
	return perByte*int64(len(text)) + perValue*int64(values) + perObject*int64(objects), longest
}

// ReadReport decodes a report, unless it holds more than any agent tells at a time.
func ReadReport(data []byte) (*Report, error) {
	if len(data) > MaxReport {
		return nil, fmt.Errorf("cannot read report of %d bytes: expected at most %d", len(data), MaxReport)
	}
	var r Report
	if err := readBounded(data, &r); err != nil {
		return nil, fmt.Errorf("cannot read report: %w", err)
	}
	if r.Version > Version {
		return nil, fmt.Errorf("cannot read report: %w", ErrVersion)
	}
	if held := r.Trust; max(len(r.Session), len(r.Place), len(r.Proof)) > maxName || held != nil && len(held.Digest) > maxName {
		return nil, fmt.Errorf("cannot read report: its session, its place or what it names is longer than %d bytes", maxName)
	}
	return &r, nil
}

// ReadReceipt decodes a receipt, unless it holds more than any agent says of a manifest.
func ReadReceipt(data []byte) (Receipt, error) {
	var r Receipt
	if err := readBounded(data, &r); err != nil {
		return Receipt{}, fmt.Errorf("cannot read receipt: %w", err)
	}
	if r.Version > Version {
		return Receipt{}, fmt.Errorf("cannot read receipt: %w", ErrVersion)
	}
	return r, nil
}

// readBounded decodes a message that has been counted before.
func readBounded(data []byte, v any) error {
	switch weight, entries := count(data); {
	case weight > MaxWeight:
		return fmt.Errorf("it would take %d bytes of memory: expected at most %d", weight, MaxWeight)
	case entries > maxEntries:
		return fmt.Errorf("it has %d entries of a kind: expected at most %d", entries, maxEntries)
	}
	return json.Unmarshal(data, v)
}
