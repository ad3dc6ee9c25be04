// Package frame is the form of the messages between the servers of a fleet and its members, and of servers among
// themselves. A member is an agent or a proxy. Each message is sealed, so that only the other side of the pair can read
// it, and nobody else can make, change or redirect it. The construction is in docs/security.md. The package moves and
// stores nothing.
package frame

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"golang.org/x/crypto/chacha20poly1305"
)

// version is the version of the frame and of the derivation of its keys.
const version = 1

// The lengths of the parts of a frame, in bytes. A frame is a head, a nonce, and the sealed body with its tag.
const (
	headSize = 1 + 1 + idSize + timeSize
	timeSize = 8
	// Overhead is how much longer a frame is than its body.
	Overhead = headSize + len(Nonce{}) + chacha20poly1305.Overhead
)

// Nonce names a frame. Its sender has chosen it at random, so no two frames have the same one.
type Nonce [chacha20poly1305.NonceSizeX]byte

// Head is the part of a frame that everybody on the way can read. Only Open proves it.
type Head struct {
	Kind Kind
	// Pair names the keys of the frame.
	Pair PairID
	// Time is when the frame was sealed, by the clock of the fleet as its sender knew it, in whole milliseconds. It is
	// zero if the sender did not know the clock.
	Time  time.Time
	Nonce Nonce
}

// The reasons to reject a frame.
var (
	// ErrForm rejects bytes that are not a frame of a known version and kind.
	ErrForm = errors.New("not a frame of a known form")
	// ErrSize rejects a frame that is longer than any frame of its kind.
	ErrSize = errors.New("larger than any frame of its kind")
	// ErrKind rejects a frame of another kind than expected, or of a kind that its sender may not send.
	ErrKind = errors.New("frame of another kind")
	// ErrPair rejects a frame that is sealed with other keys.
	ErrPair = errors.New("sealed with the keys of another pair")
	// ErrForged rejects a frame that the other side has not made, or not for this use.
	ErrForged = errors.New("forged frame")
)

// Read returns the head of a frame. It proves nothing. For a hint it returns a *HintError.
func Read(data []byte) (Head, error) {
	if len(data) > 0 && data[0] == hintMark {
		return Head{}, hintOf(data)
	}
	if len(data) < Overhead || data[0] != version {
		return Head{}, ErrForm
	}
	h := Head{Kind: Kind(data[1])}
	row, ok := h.Kind.row()
	if !ok {
		return Head{}, ErrForm
	}
	if len(data)-Overhead > row.Largest {
		return Head{}, fmt.Errorf("%w: %s of %d bytes, expected at most %d", ErrSize, h.Kind, len(data)-Overhead,
			row.Largest)
	}
	ms := binary.BigEndian.Uint64(data[2+idSize : headSize])
	if ms > maxMilliseconds {
		return Head{}, ErrForm
	}
	if ms != 0 {
		h.Time = time.UnixMilli(int64(ms))
	}
	copy(h.Pair[:], data[2:])
	copy(h.Nonce[:], data[headSize:])
	return h, nil
}

// maxMilliseconds is the largest time in a frame: 1 January 3000.
const maxMilliseconds = 32_503_680_000_000

// append adds the head to a frame, without its nonce.
func (h Head) append(data []byte) []byte {
	data = append(data, version, byte(h.Kind))
	data = append(data, h.Pair[:]...)
	var ms uint64
	if !h.Time.IsZero() {
		ms = uint64(max(h.Time.UnixMilli(), 0)) //nolint:gosec // not below 0
	}
	return binary.BigEndian.AppendUint64(data, min(ms, maxMilliseconds))
}

// associated returns the associated data of a frame: its head, the sender, the addressee, and the nonce of the frame
// that it answers. Each part has a fixed length.
func (h Head) associated(from, to string, about Nonce) []byte {
	data := h.append(make([]byte, 0, headSize+len(from)+len(to)+len(about)))
	data = append(data, from...)
	data = append(data, to...)
	return append(data, about[:]...)
}

// Seal returns a frame with this body for the other side, and its nonce. at is the time by the clock of the fleet, zero
// if it is unknown. about is the nonce of the frame that this one answers; it must be set if the kind is an answer, and
// must be zero if not.
func (p *Pair) Seal(kind Kind, at time.Time, about Nonce, body []byte) (data []byte, nonce Nonce, err error) {
	if _, err := rand.Read(nonce[:]); err != nil { // not reached: Read ends the program instead
		return nil, nonce, fmt.Errorf("cannot seal %s: %w", kind, err)
	}
	data, err = p.seal(Head{Kind: kind, Pair: p.id, Time: at, Nonce: nonce}, about, body)
	return data, nonce, err
}

func (p *Pair) seal(h Head, about Nonce, body []byte) ([]byte, error) {
	row, ok := h.Kind.row()
	switch {
	case !ok || row.From != p.side:
		return nil, fmt.Errorf("cannot seal %s: this side sends no such frame", h.Kind)
	case (about != Nonce{}) != (row.Answers != 0):
		return nil, fmt.Errorf("cannot seal %s: expected the frame that it answers, if it is an answer", h.Kind)
	case len(body) > row.Largest:
		return nil, fmt.Errorf("cannot seal %s of %d bytes: expected at most %d", h.Kind, len(body), row.Largest)
	}
	data := make([]byte, 0, Overhead+len(body))
	data = append(h.append(data), h.Nonce[:]...)
	return p.out.Seal(data, h.Nonce[:], body, h.associated(p.own, p.other, about)), nil
}

// Open returns the head and the body of a frame of this kind from the other side. about is the nonce of the frame that
// it must answer; zero if it is not an answer. The body takes the place of the sealed body in data, which is lost. Open
// needs no other memory, so a reader of large frames needs not twice their size.
//
// Open proves that the other side made the frame for this receiver, as this kind, as the answer to this frame, and at
// this time. It does not prove that the frame comes for the first time: a Window does.
func (p *Pair) Open(kind Kind, data []byte, about Nonce) (Head, []byte, error) {
	h, err := Read(data)
	if err != nil {
		return Head{}, nil, err
	}
	row, _ := h.Kind.row()
	switch {
	case h.Kind != kind || row.From != p.from || (about != Nonce{}) != (row.Answers != 0):
		return Head{}, nil, fmt.Errorf("%w: %s, expected %s", ErrKind, h.Kind, kind)
	case h.Pair != p.id:
		return Head{}, nil, ErrPair
	}
	sealed := data[headSize+len(h.Nonce):]
	body, err := p.in.Open(sealed[:0], h.Nonce[:], sealed, h.associated(p.other, p.own, about))
	if err != nil {
		return Head{}, nil, fmt.Errorf("%w: %s", ErrForged, h.Kind)
	}
	return h, body, nil
}
