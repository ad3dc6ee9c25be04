package wire

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// A server must not trust the size of an agent's message: three bytes of JSON can allocate hundreds in memory. So it
// counts the values of a message before it parses the message.
const (
	// MaxReport is the largest report in bytes: the batch size of agents, plus one last entry.
	MaxReport = 1 << 20
	// MaxSpec is the largest spec in bytes, so that a spec fits into a report with all else.
	MaxSpec = 512 << 10
	// MaxWeight is the largest Weight of a report or a receipt.
	MaxWeight = 16 << 20
	// maxName is the longest session, place, proof and trust digest in a report, in bytes: the server remembers and
	// compares them.
	maxName = 255
	// maxEntries is the largest number of entries of a kind in a report or a receipt: twice the number that agents
	// and servers send.
	maxEntries = 1000
)

// Weight estimates, without parsing, the largest memory in bytes that parsing a message takes.
func Weight(data []byte) int64 {
	weight, _ := count(data)
	return weight
}

// count returns the Weight of a JSON text. It also returns an upper bound of the number of entries in each list or
// object that is a field of the text.
func count(text []byte) (weight int64, longest int) {
	const perByte, perValue, perObject = 2, 128, 512
	const field = 2 // the depth inside a field
	values, objects, entries := 0, 0, 0
	depth, quoted, escaped := 0, false, false
	for _, c := range text {
		switch {
		case c == '\n': // a text ends with its line, so that no text hides the events behind it
			quoted, escaped = false, false
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

// EncodeReport returns a report in the form on the wire: the encoded Report in the first line, and each event in its
// own line, unchanged from the agent's log.
func EncodeReport(report any, events [][]byte) ([]byte, error) {
	text, err := json.Marshal(report)
	return bytes.Join(append([][]byte{text}, events...), []byte("\n")), err
}

// ReadReport decodes a report, but not its events. It rejects a report that is larger than any that agents send.
func ReadReport(data []byte) (*Report, error) {
	if len(data) > MaxReport {
		return nil, fmt.Errorf("cannot read report of %d bytes: expected at most %d", len(data), MaxReport)
	}
	if n := bytes.Count(data, []byte("\n")); n > maxEntries {
		return nil, fmt.Errorf("cannot read report of %d events: expected at most %d", n, maxEntries)
	}
	var r Report
	lines := bytes.Split(data, []byte("\n"))
	if err := readBounded(data, lines[0], &r); err != nil {
		return nil, fmt.Errorf("cannot read report: %w", err)
	}
	if r.Version > Version {
		return nil, fmt.Errorf("cannot read report: %w", ErrVersion)
	}
	if held := r.Trust; max(len(r.Session), len(r.Place), len(r.Incarnation)) > maxName || held != nil &&
		len(held.Digest) > maxName {
		return nil, fmt.Errorf("cannot read report: its session, its place or what it names is longer than %d bytes",
			maxName)
	}
	r.Events = lines[1:]
	return &r, nil
}

// ReadReceipt decodes a receipt. It rejects a receipt that is larger than any that agents send.
func ReadReceipt(data []byte) (Receipt, error) {
	var r Receipt
	if err := readBounded(data, data, &r); err != nil {
		return Receipt{}, fmt.Errorf("cannot read receipt: %w", err)
	}
	if r.Version > Version {
		return Receipt{}, fmt.Errorf("cannot read receipt: %w", ErrVersion)
	}
	return r, nil
}

// readBounded decodes a text of a message. The caller has counted the message.
func readBounded(data, text []byte, v any) error {
	switch weight, entries := count(data); {
	case weight > MaxWeight:
		return fmt.Errorf("it would take %d bytes of memory: expected at most %d", weight, MaxWeight)
	case entries > maxEntries:
		return fmt.Errorf("it has %d entries of a kind: expected at most %d", entries, maxEntries)
	}
	return json.Unmarshal(text, v)
}
