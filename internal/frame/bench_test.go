package frame_test

import (
	"strconv"
	"strings"
	"testing"

	"drover/internal/frame"
)

// BenchmarkFrame is what it costs to seal and to open a frame on one processor, by the size of its body, and to derive
// the keys of a pair. ADR 0067 has the same of signatures.
func BenchmarkFrame(b *testing.B) {
	p := pair(b)
	for _, size := range []int{0, 400, 1000, 16 << 10, 1 << 20} {
		body := []byte(strings.Repeat("b", size))
		data, _, err := p.fleet.Seal(frame.Orders, sealedAt, frame.Nonce{}, body)
		if err != nil {
			b.Fatal(err)
		}
		b.Run("seal/"+strconv.Itoa(size), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, _, err := p.fleet.Seal(frame.Orders, sealedAt, frame.Nonce{}, body); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run("open/"+strconv.Itoa(size), func(b *testing.B) {
			b.ReportAllocs()
			taken := make([]byte, len(data))
			for b.Loop() {
				copy(taken, data)
				if _, _, err := p.member.Open(frame.Orders, taken, frame.Nonce{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("derive", func(b *testing.B) {
		own, public := keyOf(b, "fleet"), keyOf(b, "member").PublicKey()
		b.ReportAllocs()
		for b.Loop() {
			if _, err := frame.AtFleet(fleetName, own, memberName, public); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkWindow is what it costs to admit a frame.
func BenchmarkWindow(b *testing.B) {
	w, number := frame.NewWindow(sealedAt), uint64(0)
	at := sealedAt
	b.ReportAllocs()
	for b.Loop() {
		if number++; number%10_000 == 0 {
			at = at.Add(frame.Width)
		}
		if err := w.Admit(headAt(number, at), at); err != nil {
			b.Fatal(err)
		}
	}
}
