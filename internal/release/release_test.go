package release_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"strings"
	"testing"
	"time"

	"drover/internal/release"
)

func newKey(t *testing.T) (text string, private ed25519.PrivateKey) {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return release.KeyText(public), private
}

var program = bytes.Repeat([]byte("agent"), 150_000) // three pieces

func TestSealAndOpen(t *testing.T) {
	key, private := newKey(t)
	other, _ := newKey(t)
	at := time.Unix(1_790_000_000, 0)
	made := release.Describe("1.4.0", "amd64", 1, program)
	signed, err := release.Seal(made, private, at)
	if err != nil {
		t.Fatal(err)
	}
	for _, keys := range [][]string{nil, {key}, {other, key}} {
		got, by, err := release.Open(signed, keys)
		if err != nil || by != key || got.SHA256 != made.SHA256 || got.Signed != at.Unix() || len(got.Pieces) != 3 {
			t.Errorf("keys %q: %+v by %s, %v", keys, got, by, err)
		}
	}
	for _, keys := range [][]string{{}, {other}} {
		if _, _, err := release.Open(signed, keys); !errors.Is(err, release.ErrForged) {
			t.Errorf("keys %q: %v", keys, err)
		}
	}
	for i := range signed { // whatever is changed, it is no signed package any more
		bad := bytes.Clone(signed)
		bad[i] ^= 1
		if p, _, err := release.Open(bad, []string{key}); err == nil {
			t.Fatalf("byte %d of %d: %+v", i, len(signed), p)
		}
	}
	for _, length := range []int{0, 1, len(signed) / 2, len(signed) - 2} {
		if _, _, err := release.Open(signed[:length], []string{key}); err == nil {
			t.Errorf("%d of %d bytes are taken", length, len(signed))
		}
	}
	if _, _, err := release.Open(bytes.Repeat([]byte("x"), release.MaxSigned+1), nil); err == nil {
		t.Error("a text without end is taken")
	}
}

func TestPieces(t *testing.T) {
	p := release.Describe("1.4.0", "amd64", 1, program)
	for n := range p.Pieces {
		from := n * release.PieceSize
		piece := program[from:min(from+release.PieceSize, len(program))]
		flipped := bytes.Clone(piece)
		flipped[len(flipped)/2] ^= 4
		if !p.Holds(n, piece) || p.Holds(n, flipped) || p.Holds(n, piece[1:]) || p.Holds((n+1)%3, piece) {
			t.Errorf("piece %d", n)
		}
	}
	if p.Holds(-1, nil) || p.Holds(3, nil) {
		t.Error("there is a piece that is not there")
	}
}

func TestCheckSaysAll(t *testing.T) {
	p := release.Package{Version: "v1", OS: "plan9", Arch: "mips", Size: -1, SHA256: "x"}
	err := p.Check()
	for _, want := range []string{"version", "os", "arch", "format", "size", "sum", "signed"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: no word about %s", err, want)
		}
	}
}

func TestKeys(t *testing.T) {
	text, private := newKey(t)
	if public, err := release.ParseKey(text); err != nil || release.KeyText(public) != text {
		t.Errorf("%s: %v", text, err)
	}
	again, err := release.ParseSeed(release.SeedText(private))
	if err != nil || !again.Equal(private) {
		t.Errorf("the seed: %v", err)
	}
	for _, bad := range []string{"", "drk1-", text[1:], text + "00", strings.ToUpper(text), string(release.SeedText(private))} {
		if _, err := release.ParseKey(bad); err == nil {
			t.Errorf("%q is a key", bad)
		}
	}
	secret := strings.TrimSpace(string(release.SeedText(private)))
	for _, bad := range []string{"", text, secret[:len(secret)-1]} {
		if _, err := release.ParseSeed([]byte(bad)); err == nil || strings.Contains(err.Error(), secret[30:60]) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func TestFits(t *testing.T) {
	p := release.Package{Version: "1.4.0", Arch: "amd64", Format: 2, Signed: 200}
	for _, c := range []struct {
		what string
		host release.Host
		down bool
		want string
	}{
		{"newer", release.Host{Arch: "amd64", Format: 2, Version: "1.3.9", Signed: 100}, false, ""},
		{"the same again", release.Host{Arch: "amd64", Format: 2, Version: "1.4.0", Signed: 200}, false, ""},
		{"a build without order", release.Host{Arch: "amd64", Format: 1}, false, ""},
		{"another architecture", release.Host{Arch: "arm64", Format: 1}, true, "this host is arm64"},
		{"an older format", release.Host{Arch: "amd64", Format: 3}, true, "the files of this host have 3"},
		{"a replay", release.Host{Arch: "amd64", Format: 1, Version: "1.3.0", Signed: 201}, true, "sign it anew"},
		{"a downgrade", release.Host{Arch: "amd64", Format: 1, Version: "1.10.0", Signed: 100}, false, "is below 1.10.0"},
		{"a signed downgrade", release.Host{Arch: "amd64", Format: 2, Version: "1.10.0", Signed: 100}, true, ""},
	} {
		p.Downgrade, c.host.Now = c.down, time.Unix(300, 0)
		got := ""
		if err := p.Fits(c.host); err != nil {
			got = err.Error()
		}
		if got != c.want && (c.want == "" || !strings.Contains(got, c.want)) {
			t.Errorf("%s: %q, want %q", c.what, got, c.want)
		}
	}
}

func TestCompare(t *testing.T) {
	rising := []string{
		"0.9", "1.0.0-rc.1", "1.0.0-rc.2", "1.0.0-rc.10", "1.0", "1.0.1~beta", "1.0.1", "1.2.0", "1.5.0-rc9", "1.5.0-rc10",
		"1.9", "1.10rc1", "1.11.0", "2",
	}
	for i, a := range rising {
		for j, b := range rising {
			want := 0
			switch {
			case i < j:
				want = -1
			case i > j:
				want = 1
			}
			if got := release.Compare(a, b); got != want {
				t.Errorf("%s and %s: %d, want %d", a, b, got, want)
			}
		}
	}
	if release.Compare("v1.0.0+5", "1.0.0+7") != 0 {
		t.Error("what follows + counts")
	}
	for build, want := range map[string]string{
		"v1.4.0": "1.4.0", "1.4.0": "1.4.0", "devel": "", "906e003e0c12": "", "v0.0.0-20261122114549-906e003e0c12": "",
		"3f6e003e0c12+changes": "", "": "",
	} {
		if got := release.Ordered(build); got != want {
			t.Errorf("%s: %q, want %q", build, got, want)
		}
	}
}

// TestDated: a signature of the future would keep out all versions that are signed before that.
func TestDated(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	p := release.Package{Version: "1.4.0", Arch: "amd64", Format: 1, Signed: now.Add(23 * time.Hour).Unix()}
	host := release.Host{Arch: "amd64", Format: 1, Now: now}
	if err := p.Fits(host); err != nil {
		t.Errorf("the clocks are a little apart: %v", err)
	}
	p.Signed = now.AddDate(10, 0, 0).Unix()
	if err := p.Fits(host); err == nil || !strings.Contains(err.Error(), "correct the clock of the machine that signs") {
		t.Errorf("signed in ten years: %v", err)
	}
}
