package wire_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nkeys"

	"drover/internal/process"
	"drover/internal/wire"
)

// recorded reads what the first build wrote, version 1 of every message. Once there is a release such a file is never
// made anew: it is what agents and servers that are out there send.
func recorded(t *testing.T, name string) []byte {
	t.Helper()
	return recordedFile(t, name+".json")
}

// recordedSigned reads a message as it travels.
func recordedSigned(t *testing.T, name string) []byte {
	t.Helper()
	return recordedFile(t, name+".signed")
}

func recordedFile(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", "v1", name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// theirs is the public key that the recorded messages were signed with.
func theirs(t *testing.T, kind nkeys.PrefixByte, seed string) string {
	t.Helper()
	raw := sha256.Sum256([]byte(seed))
	k, err := nkeys.FromRawSeed(kind, raw[:])
	if err != nil {
		t.Fatal(err)
	}
	public, err := k.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	return public
}

// TestRecordedMessages: what the first build wrote is understood, all of it, and what is written of it today says the
// same to the first build.
func TestRecordedMessages(t *testing.T) {
	report, event, _ := bytes.Cut(recorded(t, "report"), []byte("\n"))
	for name, message := range map[string]any{
		"enrolment": &wire.Enrolment{}, "introduction": &wire.Report{}, "heartbeat": &wire.Report{},
		"report": &wire.Report{}, "event": &process.Event{},
		"answer": &wire.ReportAck{}, "refusal": &wire.ReportAck{}, "receipt": &wire.Receipt{},
		"orders": &wire.Manifest{}, "desired": &wire.Desired{}, "question": &wire.Question{},
	} {
		var data []byte
		switch name {
		case "report":
			data = report
		case "event":
			data = event
		default:
			data = recorded(t, name)
		}
		d := json.NewDecoder(bytes.NewReader(data))
		d.DisallowUnknownFields()
		if err := d.Decode(message); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		written, err := json.Marshal(message)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(plain(t, data), plain(t, written)); diff != "" {
			t.Errorf("%s is another one when it is written again (-recorded +written):\n%s", name, diff)
		}
	}
}

func plain(t *testing.T, data []byte) any {
	t.Helper()
	var v any
	if err := json.Unmarshal(data, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

func mustJSON(t *testing.T, v any) []byte {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// TestRecordedSignatures: they count still.
func TestRecordedSignatures(t *testing.T) {
	agent, server := theirs(t, nkeys.PrefixByteUser, "agent"), theirs(t, nkeys.PrefixByteAccount, "server")
	e, err := wire.OpenTrust(recordedSigned(t, "trust"), []string{server}, agent)
	if err != nil {
		t.Fatal(err)
	}
	if want, got := plain(t, recorded(t, "enrolment")), plain(t, mustJSON(t, e)); !cmp.Equal(want, got) {
		t.Errorf("trust (-recorded +read):\n%s", cmp.Diff(want, got))
	}
	r, err := wire.OpenJoin(recorded(t, "join"))
	if err != nil || r.Key != agent || r.IP != "192.0.2.7" || r.ID != "web-1" || r.Proxy != nil {
		t.Errorf("the request to join is %+v, %v", r, err)
	}
}

// TestFormerKeys: with several signatures a reader takes the first by a key that it knows, and that one has to be
// right.
func TestFormerKeys(t *testing.T) {
	present, presentKey := key(t, "p")
	former, formerKey := key(t, "f")
	_, strangerKey := key(t, "z")
	_, agent := key(t, "a")
	data, err := wire.SealTrust(agent, trustOf(), present, former)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		pinned []string
		want   error
	}{
		"the present one": {[]string{presentKey}, nil}, "the former one": {[]string{formerKey}, nil},
		"both":    {[]string{formerKey, presentKey}, nil},
		"another": {[]string{strangerKey}, wire.ErrUnknownKey}, "none": {nil, wire.ErrUnknownKey},
	} {
		if _, err := wire.OpenTrust(data, c.pinned, agent); !errors.Is(err, c.want) {
			t.Errorf("who knows %s: %v, want %v", name, err, c.want)
		}
	}
	forged := slices.Clone(data)
	forged[bodyAt+signatureAt-publicAt] ^= 1 // the first byte of the second signature
	if _, err := wire.OpenTrust(forged, []string{formerKey}, agent); !errors.Is(err, wire.ErrForged) {
		t.Errorf("a forged signature: %v", err)
	}
	if _, err := wire.OpenTrust(forged, []string{presentKey}, agent); err != nil {
		t.Errorf("who does not need the forged one: %v", err)
	}
}
