package frame_test

import (
	"bytes"
	"crypto/ecdh"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nkeys"

	"drover/internal/fabric/fabrictest"
	"drover/internal/frame"
)

// The names of a fleet and of two members, as long as public nkeys.
var (
	fleetName  = "A" + strings.Repeat("FLEET", 11)
	memberName = "U" + strings.Repeat("AGENT", 11)
	otherName  = "U" + strings.Repeat("OTHER", 11)
	sealedAt   = time.UnixMilli(1_795_374_000_123)
)

// keyOf returns the same key for the same text.
func keyOf(t testing.TB, text string) *ecdh.PrivateKey {
	t.Helper()
	seed := sha256.Sum256([]byte(text))
	key, err := ecdh.X25519().NewPrivateKey(seed[:])
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// sides are both sides of a pair, and the pair of the servers among themselves.
type sides struct{ fleet, member, servers *frame.Pair }

func (s sides) of(side frame.Side) (own, other *frame.Pair) {
	switch side {
	case frame.Fleet:
		return s.fleet, s.member
	case frame.Servers:
		return s.servers, s.servers
	default:
		return s.member, s.fleet
	}
}

// pairOf returns both sides of the pair of these names and of the keys of these texts.
func pairOf(t testing.TB, fleet, fleetKey, member, memberKey string) sides {
	t.Helper()
	f, m := keyOf(t, fleetKey), keyOf(t, memberKey)
	atFleet, err := frame.AtFleet(fleet, f, member, m.PublicKey())
	if err != nil {
		t.Fatal(err)
	}
	atMember, err := frame.AtMember(member, m, fleet, f.PublicKey())
	if err != nil {
		t.Fatal(err)
	}
	if name := frame.Name(f.PublicKey(), m.PublicKey()); atFleet.ID() != name || atMember.ID() != name {
		t.Fatalf("the sides name their pair %x and %x, expected %x", atFleet.ID(), atMember.ID(), name)
	}
	servers, err := frame.AmongServers(fleet, f)
	if err != nil {
		t.Fatal(err)
	}
	if name := frame.Name(f.PublicKey(), f.PublicKey()); servers.ID() != name {
		t.Fatalf("the pair of the servers is %x, expected %x", servers.ID(), name)
	}
	return sides{fleet: atFleet, member: atMember, servers: servers}
}

func pair(t testing.TB) sides {
	t.Helper()
	return pairOf(t, fleetName, "fleet", memberName, "member")
}

// question is the frame that answers of this kind answer; zero for other kinds.
func question(kind frame.Kind) (about frame.Nonce) {
	if kind.Row().Answers != 0 {
		copy(about[:], "the frame of the question")
	}
	return about
}

// bodyOf is a body that frames of the kind may have.
func bodyOf(kind frame.Kind) []byte { return []byte("a body of text")[:min(14, kind.Row().Largest)] }

func TestEachKindArrives(t *testing.T) {
	p := pair(t)
	for _, kind := range frame.Kinds() {
		own, other := p.of(kind.Row().From)
		for _, at := range []time.Time{sealedAt, {}} {
			data, nonce, err := own.Seal(kind, at, question(kind), bodyOf(kind))
			if err != nil {
				t.Fatal(err)
			}
			if len(data) != frame.Overhead+len(bodyOf(kind)) || len(bodyOf(kind)) > 0 && bytes.Contains(data, bodyOf(kind)) {
				t.Errorf("%s: the frame of %d bytes is %q", kind, len(data), data)
			}
			h, body, err := other.Open(kind, bytes.Clone(data), question(kind))
			if err != nil || !bytes.Equal(body, bodyOf(kind)) || !h.Time.Equal(at) || h.Nonce != nonce || h.Kind != kind {
				t.Errorf("%s: got %+v %q, %v", kind, h, body, err)
			}
			if _, again, err := own.Seal(kind, at, question(kind), bodyOf(kind)); err != nil || again == nonce {
				t.Errorf("%s: two frames have one nonce, %v", kind, err)
			}
		}
	}
}

// sealed returns a frame of a kind, with the pair of its sender and that of its receiver.
func (s sides) sealed(t *testing.T, kind frame.Kind) (own, other *frame.Pair, data []byte) {
	t.Helper()
	own, other = s.of(kind.Row().From)
	data, _, err := own.Seal(kind, sealedAt, question(kind), bodyOf(kind))
	if err != nil {
		t.Fatal(err)
	}
	return own, other, data
}

// TestEachBitIsProven: a frame with one bit changed is no frame, wherever the bit is.
func TestEachBitIsProven(t *testing.T) {
	p := pair(t)
	for _, kind := range frame.Kinds() {
		_, other, data := p.sealed(t, kind)
		for i := range 8 * len(data) {
			changed := bytes.Clone(data)
			changed[i/8] ^= 1 << (i % 8)
			if _, body, err := other.Open(kind, bytes.Clone(changed), question(kind)); err == nil || body != nil {
				t.Errorf("%s: bit %d does not count", kind, i)
			}
		}
		for n := range data {
			if _, _, err := other.Open(kind, bytes.Clone(data[:n]), question(kind)); err == nil {
				t.Errorf("%s: %d of %d bytes are enough", kind, n, len(data))
			}
		}
		if _, _, err := other.Open(kind, append(bytes.Clone(data), 0), question(kind)); err == nil {
			t.Errorf("%s: a byte may follow", kind)
		}
	}
}

// TestAFrameIsGoodForOneUse: no other receiver, sender, kind, question or fleet takes it.
func TestAFrameIsGoodForOneUse(t *testing.T) {
	p := pair(t)
	for _, kind := range frame.Kinds() {
		own, other, data := p.sealed(t, kind)
		_, _, err := own.Open(kind, bytes.Clone(data), question(kind))
		if kind.Row().From != frame.Servers && !errors.Is(err, frame.ErrKind) {
			t.Errorf("%s: its sender takes it: %v", kind, err)
		}
		for _, as := range frame.Kinds() {
			if as == kind {
				continue
			}
			if _, _, err := other.Open(as, bytes.Clone(data), question(as)); !errors.Is(err, frame.ErrKind) {
				t.Errorf("%s passes for %s: %v", kind, as, err)
			}
			relabelled := bytes.Clone(data)
			relabelled[1] = byte(as)
			if _, _, err := other.Open(as, bytes.Clone(relabelled), question(as)); err == nil {
				t.Errorf("%s passes for %s with another label", kind, as)
			}
		}
		if kind.Row().Answers != 0 {
			if _, _, err := other.Open(kind, bytes.Clone(data), frame.Nonce{1}); !errors.Is(err, frame.ErrForged) {
				t.Errorf("%s answers another question: %v", kind, err)
			}
		}
		strangers := map[string]sides{
			"another fleet":         pairOf(t, "A"+otherName[1:], "fleet", memberName, "member"),
			"another fleet's key":   pairOf(t, fleetName, "next", memberName, "member"),
			"sides that are turned": pairOf(t, memberName, "fleet", fleetName, "member"),
		}
		if kind.Row().From != frame.Servers {
			strangers["another member"] = pairOf(t, fleetName, "fleet", otherName, "member")
			strangers["another member's key"] = pairOf(t, fleetName, "fleet", memberName, "next")
		}
		for name, strange := range strangers {
			_, receiver := strange.of(kind.Row().From)
			id := receiver.ID()
			relabelled := bytes.Clone(data)
			copy(relabelled[2:], id[:]) // the name of the pair alone would give it away
			if _, _, err := receiver.Open(kind, bytes.Clone(relabelled), question(kind)); !errors.Is(err, frame.ErrForged) {
				t.Errorf("%s: %s takes it: %v", kind, name, err)
			}
		}
	}
}

func TestWhoMaySend(t *testing.T) {
	p := pair(t)
	for _, kind := range append(frame.Kinds(), 0, 200) {
		row := kind.Row()
		for _, side := range []frame.Side{frame.Fleet, frame.Member, frame.Servers} {
			own, _ := p.of(side)
			_, _, err := own.Seal(kind, sealedAt, question(kind), bodyOf(kind))
			if may := row.From == side; (err == nil) != may {
				t.Errorf("%s from side %d: %v", kind, side, err)
			}
		}
		own, _ := p.of(row.From)
		about := frame.Nonce{}
		if row.Answers == 0 {
			about = frame.Nonce{1}
		}
		if _, _, err := own.Seal(kind, sealedAt, about, nil); err == nil {
			t.Errorf("%s is sealed with a question that it must not have, or without the one that it must", kind)
		}
	}
}

func TestSizes(t *testing.T) {
	p := pair(t)
	for _, kind := range frame.Kinds() {
		own, other := p.of(kind.Row().From)
		largest := make([]byte, kind.Row().Largest)
		data, _, err := own.Seal(kind, sealedAt, question(kind), largest)
		if err != nil {
			t.Fatal(err)
		}
		if _, body, err := other.Open(kind, bytes.Clone(data), question(kind)); err != nil || len(body) != len(largest) {
			t.Errorf("%s: got %d bytes of %d, %v", kind, len(body), len(largest), err)
		}
		if _, _, err := own.Seal(kind, sealedAt, question(kind), append(largest, 0)); err == nil {
			t.Errorf("%s: a larger one is sealed", kind)
		}
		if _, err := frame.Read(append(data, 0)); !errors.Is(err, frame.ErrSize) {
			t.Errorf("%s: a larger one is read: %v", kind, err)
		}
	}
}

// TestTimes: a frame has whole milliseconds, and no time that could overflow.
func TestTimes(t *testing.T) {
	p := pair(t)
	for at, want := range map[time.Time]int64{
		sealedAt.Add(999 * time.Microsecond): sealedAt.UnixMilli(),
		time.Unix(-5, 0):                     0,
		time.Unix(1<<40, 0):                  32_503_680_000_000,
	} {
		data, _, err := p.fleet.Seal(frame.Orders, at, frame.Nonce{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		h, _, err := p.member.Open(frame.Orders, bytes.Clone(data), frame.Nonce{})
		switch {
		case err != nil:
			t.Error(err)
		case want == 0 && !h.Time.IsZero(), want != 0 && h.Time.UnixMilli() != want:
			t.Errorf("got %v for %v", h.Time, at)
		}
	}
	data, _, err := p.fleet.Seal(frame.Orders, sealedAt, frame.Nonce{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 6; i < 14; i++ {
		data[i] = 0xff
	}
	if _, err := frame.Read(data); !errors.Is(err, frame.ErrForm) {
		t.Errorf("a time beyond all times is read: %v", err)
	}
}

// TestKeysThatGiveNoSecret are refused: with a point of small order both sides would have a secret that everybody knows.
func TestKeysThatGiveNoSecret(t *testing.T) {
	own := keyOf(t, "fleet")
	for _, point := range [][]byte{make([]byte, 32), append([]byte{1}, make([]byte, 31)...)} {
		public, err := ecdh.X25519().NewPublicKey(point)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := frame.AtFleet(fleetName, own, memberName, public); err == nil {
			t.Errorf("the point %x is taken", point)
		}
		if _, err := frame.AtMember(memberName, own, fleetName, public); err == nil {
			t.Errorf("the point %x is taken by a member", point)
		}
	}
	p256, err := ecdh.P256().NewPrivateKey(append(make([]byte, 31), 1))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := frame.AtFleet(fleetName, own, memberName, p256.PublicKey()); err == nil {
		t.Error("a key of another curve is taken")
	}
	if _, err := frame.AtFleet("fleet", own, memberName, own.PublicKey()); err == nil {
		t.Error("a short name is taken")
	}
}

// TestTheServersArePairedWithThemselves: no member has the key of the servers, nor has a server with a member, whatever
// a member has registered as its name and its key.
func TestTheServersArePairedWithThemselves(t *testing.T) {
	p := pair(t)
	posing := pairOf(t, fleetName, "fleet", fleetName, "fleet") // a member that is the fleet
	if posing.fleet.ID() != p.servers.ID() {
		t.Fatal("the pairs have other names: then this proves nothing")
	}
	for _, kind := range frame.Kinds() {
		own, _, data := p.sealed(t, kind)
		if kind.Row().From == frame.Servers {
			if _, _, err := own.Open(kind, bytes.Clone(data), question(kind)); err != nil {
				t.Errorf("%s: a server does not open it: %v", kind, err)
			}
			for _, at := range []*frame.Pair{p.fleet, p.member, posing.fleet, posing.member} {
				if _, _, err := at.Open(kind, bytes.Clone(data), question(kind)); !errors.Is(err, frame.ErrKind) {
					t.Errorf("%s of a server is opened elsewhere: %v", kind, err)
				}
			}
			continue
		}
		id := p.servers.ID()
		copy(data[2:], id[:])
		for _, as := range frame.Kinds() {
			relabelled := bytes.Clone(data)
			relabelled[1] = byte(as)
			if _, _, err := p.servers.Open(as, relabelled, question(as)); err == nil {
				t.Errorf("%s passes for %s of a server", kind, as)
			}
		}
	}
	// With all keys in hand: what the fleet says to itself as to a member is not what servers tell each other.
	for _, kind := range []frame.Kind{frame.Orders, frame.Report} {
		own, _, data := posing.sealed(t, kind)
		for _, as := range frame.Kinds() {
			relabelled := bytes.Clone(data)
			relabelled[1] = byte(as)
			if _, _, err := p.servers.Open(as, relabelled, question(as)); err == nil {
				t.Errorf("%s of side %v passes for %s of a server", kind, own.ID(), as)
			}
		}
	}
}

// TestHint: a hint is read as such, in bounds, and shows no control characters.
func TestHint(t *testing.T) {
	p := pair(t)
	for text, want := range map[string]string{
		"have it join again":        "have it join again",
		"\x1b[2Jgone\u0085":         "?[2Jgone?",
		strings.Repeat("long", 100): strings.Repeat("long", 75),
	} {
		_, _, err := p.member.Open(frame.Ack, frame.Hint(text), frame.Nonce{1})
		if hint, ok := errors.AsType[*frame.HintError](err); !ok || hint.Text != want {
			t.Errorf("%q became %v", text, err)
		}
	}
	if _, err := frame.Read(append([]byte{0}, strings.Repeat("x", 1000)...)); len(err.Error()) > 400 {
		t.Errorf("a long hint of somebody else is %v", err)
	}
}

// TestKeysOfFiles: an nkey for curves is the same key for frames.
func TestKeysOfFiles(t *testing.T) {
	made, public := fabrictest.NewSealingKey(t)
	key, err := frame.PrivateKey(made)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := frame.PublicKey(public); err != nil || !got.Equal(key.PublicKey()) {
		t.Errorf("%s became %v, %v", public, got, err)
	}
	signer, err := nkeys.CreateUser()
	if err != nil {
		t.Fatal(err)
	}
	signerPublic, err := signer.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := frame.PrivateKey(signer); err == nil {
		t.Error("a key that signs is taken")
	}
	for _, text := range []string{"", signerPublic, public[:55], public[:55] + "!"} {
		if _, err := frame.PublicKey(text); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
}

// TestTheDocumentHasTheTable: docs/security.md has the same kinds as the code.
func TestTheDocumentHasTheTable(t *testing.T) {
	for _, path := range []string{"../../docs/security.md", "../../docs/zh/security.md"} {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for line := range strings.Lines(string(text)) {
			cells := strings.Split(strings.TrimSpace(line), "|")
			if len(cells) < 8 || !strings.HasPrefix(strings.TrimSpace(cells[2]), "`") {
				continue
			}
			if _, err := strconv.Atoi(strings.TrimSpace(cells[1])); err == nil {
				var row []string
				for _, cell := range cells[1:6] {
					row = append(row, strings.TrimSpace(cell))
				}
				got = append(got, strings.Join(row, " "))
			}
		}
		var want []string
		for _, kind := range frame.Kinds() {
			row := kind.Row()
			from, answers := "F", "–"
			switch row.From {
			case frame.Fleet:
			case frame.Member:
				from = "M"
			case frame.Servers:
				from = "S"
			}
			if row.Answers != 0 {
				answers = "`" + row.Answers.String() + "`"
			}
			want = append(want, fmt.Sprintf("%d `%s` %s %s %d", kind, kind, from, answers, row.Largest))
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s has\n%s\nexpected\n%s", path, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
}

// FuzzOpen: no bytes make a receiver fail, and none but those of the sender are taken.
func FuzzOpen(f *testing.F) {
	p := pair(f)
	known := map[string]bool{}
	for _, kind := range frame.Kinds() {
		own, _ := p.of(kind.Row().From)
		var nonce frame.Nonce
		copy(nonce[:], "a nonce of the fuzzer...")
		data, err := own.SealAs(frame.Head{Kind: kind, Pair: own.ID(), Time: sealedAt, Nonce: nonce}, question(kind),
			bodyOf(kind))
		if err != nil {
			f.Fatal(err)
		}
		known[string(data)] = true
		f.Add(data)
	}
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		h, err := frame.Read(data)
		second, ok := readHead(data)
		if (err == nil) != ok || ok && h != second {
			t.Errorf("the second decoder reads %+v %v, the first one %+v %v", second, ok, h, err)
		}
		for _, kind := range frame.Kinds() {
			_, receiver := p.of(kind.Row().From)
			_, body, err := receiver.Open(kind, bytes.Clone(data), question(kind))
			if err == nil && !known[string(data)] || err != nil && body != nil {
				t.Errorf("%s: %x gives %q, %v", kind, data, body, err)
			}
		}
	})
}
