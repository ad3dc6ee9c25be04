package frame_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/binary"
	"math/big"
	"math/bits"
	"time"

	"drover/internal/frame"
)

// This file opens frames without the code of the package and without the libraries that it uses. It is written from
// docs/security.md, RFC 7748 (X25519), RFC 5869 (HKDF), RFC 8439 (ChaCha20, Poly1305) and draft-irtf-cfrg-xchacha. It
// is slow, and not safe against observers of its time.

// x25519 is the function of RFC 7748, section 5, with numbers of any size.
func x25519(scalar, point []byte) []byte {
	prime := new(big.Int).Sub(new(big.Int).Lsh(big.NewInt(1), 255), big.NewInt(19))
	k, u := littleEndian(clamped(scalar)), littleEndian(point)
	u.SetBit(u, 255, 0)
	mul := func(a, b *big.Int) *big.Int { return new(big.Int).Mod(new(big.Int).Mul(a, b), prime) }
	add := func(a, b *big.Int) *big.Int { return new(big.Int).Mod(new(big.Int).Add(a, b), prime) }
	sub := func(a, b *big.Int) *big.Int { return new(big.Int).Mod(new(big.Int).Sub(a, b), prime) }
	x2, z2, x3, z3 := big.NewInt(1), big.NewInt(0), new(big.Int).Set(u), big.NewInt(1)
	for t := 254; t >= 0; t-- {
		if k.Bit(t) == 1 {
			x2, z2, x3, z3 = x3, z3, x2, z2
		}
		a, b := add(x2, z2), sub(x2, z2)
		aa, bb := mul(a, a), mul(b, b)
		e := sub(aa, bb)
		da, cb := mul(sub(x3, z3), a), mul(add(x3, z3), b)
		x3, z3 = mul(add(da, cb), add(da, cb)), mul(u, mul(sub(da, cb), sub(da, cb)))
		x2, z2 = mul(aa, bb), mul(e, add(aa, mul(big.NewInt(121665), e)))
		if k.Bit(t) == 1 {
			x2, z2, x3, z3 = x3, z3, x2, z2
		}
	}
	result := mul(x2, new(big.Int).Exp(z2, new(big.Int).Sub(prime, big.NewInt(2)), prime))
	return toLittleEndian(result, 32)
}

func clamped(scalar []byte) []byte {
	k := append([]byte{}, scalar...)
	k[0] &= 248
	k[31] = k[31]&127 | 64
	return k
}

func littleEndian(data []byte) *big.Int {
	turned := make([]byte, len(data))
	for i, b := range data {
		turned[len(data)-1-i] = b
	}
	return new(big.Int).SetBytes(turned)
}

func toLittleEndian(n *big.Int, size int) []byte {
	data := n.FillBytes(make([]byte, size))
	for i := range size / 2 {
		data[i], data[size-1-i] = data[size-1-i], data[i]
	}
	return data
}

func hmacOf(key, text []byte) []byte {
	h := hmac.New(sha256.New, key)
	h.Write(text)
	return h.Sum(nil)
}

// chachaBlock is the block function of ChaCha20; plain leaves out the last addition, as HChaCha20 does.
func chachaBlock(key, last16 []byte, plain bool) (words [16]uint32) {
	var start [16]uint32
	copy(start[:], []uint32{0x61707865, 0x3320646e, 0x79622d32, 0x6b206574})
	for i := range 8 {
		start[4+i] = binary.LittleEndian.Uint32(key[4*i:])
	}
	for i := range 4 {
		start[12+i] = binary.LittleEndian.Uint32(last16[4*i:])
	}
	words = start
	quarter := func(a, b, c, d int) {
		w := &words
		for _, turn := range [2][2]int{{16, 12}, {8, 7}} {
			w[a] += w[b]
			w[d] = bits.RotateLeft32(w[d]^w[a], turn[0])
			w[c] += w[d]
			w[b] = bits.RotateLeft32(w[b]^w[c], turn[1])
		}
	}
	for range 10 {
		for i := range 4 {
			quarter(i, 4+i, 8+i, 12+i)
		}
		for i := range 4 {
			quarter(i, 4+(i+1)%4, 8+(i+2)%4, 12+(i+3)%4)
		}
	}
	if !plain {
		for i := range words {
			words[i] += start[i]
		}
	}
	return words
}

func bytesOf(words ...uint32) (data []byte) {
	for _, w := range words {
		data = binary.LittleEndian.AppendUint32(data, w)
	}
	return data
}

// stream is the key stream of ChaCha20 with a nonce of 12 bytes, from this block on.
func stream(key, nonce []byte, block uint32, size int) (data []byte) {
	for ; len(data) < size; block++ {
		words := chachaBlock(key, append(bytesOf(block), nonce...), false)
		data = append(data, bytesOf(words[:]...)...)
	}
	return data[:size]
}

// poly1305 is the authenticator of RFC 8439, section 2.5, with numbers of any size.
func poly1305(key, text []byte) []byte {
	prime := new(big.Int).Sub(new(big.Int).Lsh(big.NewInt(1), 130), big.NewInt(5))
	r := append([]byte{}, key[:16]...)
	for _, i := range []int{3, 7, 11, 15} {
		r[i] &= 15
	}
	for _, i := range []int{4, 8, 12} {
		r[i] &= 252
	}
	sum := new(big.Int)
	for len(text) > 0 {
		n := min(16, len(text))
		part := littleEndian(append(append([]byte{}, text[:n]...), 1))
		sum.Mod(sum.Mul(sum.Add(sum, part), littleEndian(r)), prime)
		text = text[n:]
	}
	sum.Add(sum, littleEndian(key[16:]))
	sum.And(sum, new(big.Int).Sub(new(big.Int).Lsh(big.NewInt(1), 128), big.NewInt(1)))
	return toLittleEndian(sum, 16)
}

// openX opens what XChaCha20-Poly1305 has sealed.
func openX(key, nonce, sealed, associated []byte) ([]byte, bool) {
	words := chachaBlock(key, nonce[:16], true)
	inner := bytesOf(append(append([]uint32{}, words[:4]...), words[12:]...)...)
	short := append(make([]byte, 4), nonce[16:]...)
	text, tag := sealed[:len(sealed)-16], sealed[len(sealed)-16:]
	padded := func(data []byte) []byte { return append(append([]byte{}, data...), make([]byte, -len(data)&15)...) }
	mac := append(padded(associated), padded(text)...)
	mac = binary.LittleEndian.AppendUint64(mac, uint64(len(associated)))
	mac = binary.LittleEndian.AppendUint64(mac, uint64(len(text)))
	if subtle.ConstantTimeCompare(poly1305(stream(inner, short, 0, 32), mac), tag) != 1 {
		return nil, false
	}
	body := make([]byte, len(text))
	subtle.XORBytes(body, text, stream(inner, short, 1, len(text)))
	return body, true
}

// keyOfDirection derives the key of a direction.
func keyOfDirection(direction string, secret []byte, fleet, member string, fleetPublic, memberPublic []byte) []byte {
	info := "drover seal 1 " + direction + "\n" + fleet + member + string(fleetPublic) + string(memberPublic)
	return hmacOf(hmacOf(make([]byte, 32), secret), []byte(info+"\x01"))
}

// keysOf derives the keys of the two directions, to the member and to the fleet.
func keysOf(secret []byte, fleet, member string, fleetPublic, memberPublic []byte) (toMember, toFleet []byte) {
	return keyOfDirection("to member", secret, fleet, member, fleetPublic, memberPublic),
		keyOfDirection("to fleet", secret, fleet, member, fleetPublic, memberPublic)
}

// keyOfServers derives the key of the servers among themselves.
func keyOfServers(private []byte, fleet string, public []byte) []byte {
	return keyOfDirection("among servers", x25519(private, public), fleet, fleet, public, public)
}

// readHead is frame.Read, from the table in docs/security.md.
func readHead(data []byte) (h frame.Head, ok bool) {
	if len(data) < 54 || data[0] != 1 {
		return h, false
	}
	largest, known := map[byte]int{
		1: 8388608, 2: 1048576, 3: 1048576, 4: 1048576, 5: 1048576, 6: 8388608, 7: 0, 8: 0,
		9: 65536, 10: 65536, 11: 0, 12: 65536, 13: 8388608, 14: 65536, 15: 1048576,
		16: 8388608, 17: 65536, 18: 8388608,
	}[data[1]]
	ms := new(big.Int).SetBytes(data[6:14])
	if !known || len(data)-54 > largest || ms.Cmp(big.NewInt(32503680000000)) > 0 {
		return h, false
	}
	h = frame.Head{Kind: frame.Kind(data[1]), Pair: frame.PairID(data[2:6]), Nonce: frame.Nonce(data[14:38])}
	if ms.Sign() > 0 {
		h.Time = time.UnixMilli(ms.Int64())
	}
	return h, true
}
