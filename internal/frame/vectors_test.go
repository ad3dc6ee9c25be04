package frame_test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"drover/internal/frame"
)

var update = flag.Bool("update", false, "write the test vectors anew")

// vectors are what another implementation needs to check itself. All bytes are in hexadecimal.
type vectors struct {
	Fleet         string `json:"fleet"`
	FleetPrivate  string `json:"fleet_private"`
	FleetPublic   string `json:"fleet_public"`
	Member        string `json:"member"`
	MemberPrivate string `json:"member_private"`
	MemberPublic  string `json:"member_public"`
	Secret        string `json:"secret"`
	Pair          string `json:"pair"`
	ToMember      string `json:"to_member"`
	ToFleet       string `json:"to_fleet"`
	// PairOfServers and AmongServers are of the pair of the fleet with itself.
	PairOfServers string   `json:"pair_of_servers"`
	AmongServers  string   `json:"among_servers"`
	Frames        []vector `json:"frames"`
}

type vector struct {
	Kind  int    `json:"kind"`
	Time  int64  `json:"time"` // Unix milliseconds
	Nonce string `json:"nonce"`
	About string `json:"about"` // the nonce of the frame that it answers
	Body  string `json:"body"`
	Frame string `json:"frame"`
}

const vectorsFile = "testdata/vectors.json"

// TestVectors: the recorded frames are those that the package makes, byte by byte, and a decoder without any of its
// code opens them.
func TestVectors(t *testing.T) {
	if *update {
		writeVectors(t)
	}
	text, err := os.ReadFile(filepath.FromSlash(vectorsFile))
	if err != nil {
		t.Fatal(err)
	}
	var v vectors
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatal(err)
	}
	fleetPrivate, memberPrivate := unhex(t, v.FleetPrivate), unhex(t, v.MemberPrivate)
	base := append([]byte{9}, make([]byte, 31)...)
	fleetPublic, memberPublic := x25519(fleetPrivate, base), x25519(memberPrivate, base)
	secret := x25519(fleetPrivate, memberPublic)
	toMember, toFleet := keysOf(secret, v.Fleet, v.Member, fleetPublic, memberPublic)
	among := keyOfServers(fleetPrivate, v.Fleet, fleetPublic)
	for name, pair := range map[string][2]string{
		"fleet_public":   {hex.EncodeToString(fleetPublic), v.FleetPublic},
		"member_public":  {hex.EncodeToString(memberPublic), v.MemberPublic},
		"secret":         {hex.EncodeToString(secret), v.Secret},
		"the member has": {hex.EncodeToString(x25519(memberPrivate, fleetPublic)), v.Secret},
		"to_member":      {hex.EncodeToString(toMember), v.ToMember},
		"to_fleet":       {hex.EncodeToString(toFleet), v.ToFleet},
		"among_servers":  {hex.EncodeToString(among), v.AmongServers},
	} {
		if pair[0] != pair[1] {
			t.Errorf("%s is %s, recorded is %s", name, pair[0], pair[1])
		}
	}
	if len(v.Frames) < len(frame.Kinds()) {
		t.Errorf("%d frames are recorded, expected one of each kind at least", len(v.Frames))
	}
	p := vectorPair(t)
	for _, f := range v.Frames {
		recorded := unhex(t, f.Frame)
		kind := frame.Kind(f.Kind)
		own, other := p.of(kind.Row().From)
		if made := sealVector(t, own, f); !bytes.Equal(made, recorded) {
			t.Errorf("%s is %x, recorded is %x", kind, made, recorded)
		}
		_, body, err := other.Open(kind, bytes.Clone(recorded), frame.Nonce(unhex(t, f.About)))
		if err != nil || hex.EncodeToString(body) != f.Body {
			t.Errorf("%s has the body %x, %v", kind, body, err)
		}
		key, from, to, name := toMember, v.Fleet, v.Member, v.Pair
		switch kind.Row().From {
		case frame.Fleet:
		case frame.Member:
			key, from, to = toFleet, v.Member, v.Fleet
		case frame.Servers:
			key, to, name = among, v.Fleet, v.PairOfServers
		}
		h, ok := readHead(recorded)
		if !ok || h.Time.UnixMilli() != f.Time || fmt.Sprintf("%x %x", h.Nonce, h.Pair) != f.Nonce+" "+name {
			t.Errorf("%s: the second decoder reads the head as %+v, %v", kind, h, ok)
		}
		associated := append(bytes.Clone(recorded[:14]), from+to+string(unhex(t, f.About))...)
		body, ok = openX(key, recorded[14:38], recorded[38:], associated)
		if !ok || hex.EncodeToString(body) != f.Body {
			t.Errorf("%s: the second decoder has the body %x, %v", kind, body, ok)
		}
		associated[len(associated)-1] ^= 1
		if _, ok := openX(key, recorded[14:38], recorded[38:], associated); ok {
			t.Errorf("%s: the second decoder takes an answer to another question", kind)
		}
	}
}

func unhex(t *testing.T, text string) []byte {
	t.Helper()
	data, err := hex.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func vectorPair(t *testing.T) sides {
	t.Helper()
	return pairOf(t, fleetName, "drover test vector: fleet", memberName, "drover test vector: member")
}

func sealVector(t *testing.T, own *frame.Pair, f vector) []byte {
	t.Helper()
	data, err := own.SealAs(frame.Head{
		Kind: frame.Kind(f.Kind), Pair: own.ID(), Time: sealedAt, Nonce: frame.Nonce(unhex(t, f.Nonce)),
	}, frame.Nonce(unhex(t, f.About)), unhex(t, f.Body))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// writeVectors records the keys, and frames of each kind.
func writeVectors(t *testing.T) {
	t.Helper()
	f, m := keyOf(t, "drover test vector: fleet"), keyOf(t, "drover test vector: member")
	secret, err := f.ECDH(m.PublicKey())
	if err != nil {
		t.Fatal(err)
	}
	name, own := frame.Name(f.PublicKey(), m.PublicKey()), frame.Name(f.PublicKey(), f.PublicKey())
	toMember, toFleet := keysOf(secret, fleetName, memberName, f.PublicKey().Bytes(), m.PublicKey().Bytes())
	v := vectors{
		Fleet: fleetName, FleetPrivate: hex.EncodeToString(f.Bytes()),
		FleetPublic: hex.EncodeToString(f.PublicKey().Bytes()),
		Member:      memberName, MemberPrivate: hex.EncodeToString(m.Bytes()),
		MemberPublic: hex.EncodeToString(m.PublicKey().Bytes()),
		Secret:       hex.EncodeToString(secret), Pair: hex.EncodeToString(name[:]),
		ToMember: hex.EncodeToString(toMember), ToFleet: hex.EncodeToString(toFleet),
		PairOfServers: hex.EncodeToString(own[:]),
		AmongServers:  hex.EncodeToString(keyOfServers(f.Bytes(), fleetName, f.PublicKey().Bytes())),
	}
	for _, body := range []string{`{"version":1}`, strings.Repeat("two blocks and a bit more. ", 5)} {
		for i, kind := range frame.Kinds() {
			if kind.Row().Largest == 0 && len(v.Frames) > len(frame.Kinds()) {
				continue
			}
			about := question(kind)
			one := vector{
				Kind: int(kind), Time: sealedAt.UnixMilli(), Nonce: fmt.Sprintf("%048x", 1<<20*len(body)+i),
				About: hex.EncodeToString(about[:]),
				Body:  hex.EncodeToString([]byte(body)[:min(len(body), kind.Row().Largest)]),
			}
			own, _ := vectorPair(t).of(kind.Row().From)
			one.Frame = hex.EncodeToString(sealVector(t, own, one))
			v.Frames = append(v.Frames, one)
		}
	}
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.FromSlash(vectorsFile), append(text, '\n'), 0o600); err != nil {
		t.Fatal(err)
	}
}
