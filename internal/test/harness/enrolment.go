package harness

import (
	"crypto/ecdh"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nkeys"

	"drover/internal/fabric"
	"drover/internal/fabric/fabrictest"
	"drover/internal/frame"
	"drover/internal/wire"
)

// Enrolment is what the agent whose program has its data in dir goes by, from its disk.
func Enrolment(t testing.TB, dir string) wire.Enrolment {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, "agent", "enrolment.json"))
	if err != nil {
		t.Fatal(err)
	}
	var e wire.Enrolment
	if err := json.Unmarshal(data, &e); err != nil {
		t.Fatal(err)
	}
	return e
}

// AgentPair is the pair of an agent with its fleet, at the side of the agent. dir is the agent's own directory.
func AgentPair(dir, public string, e wire.Enrolment) (*frame.Pair, error) {
	key, fleet, err := sealingKeys(dir, e)
	if err != nil {
		return nil, err
	}
	return frame.AtMember(public, key, e.Fleet, fleet)
}

// ServerPair is the pair of an agent with its fleet, at the side of the server with its own directory server.
func ServerPair(server, dir, public string, e wire.Enrolment) (*frame.Pair, error) {
	key, _, err := sealingKeys(dir, e)
	if err != nil {
		return nil, err
	}
	held, err := fabric.LoadOrCreateKey(filepath.Join(server, "sealing.nkey"), nkeys.PrefixByteCurve)
	if err != nil {
		return nil, err
	}
	fleet, err := frame.PrivateKey(held)
	if err != nil {
		return nil, err
	}
	return frame.AtFleet(e.Fleet, fleet, public, key.PublicKey())
}

// Insider is somebody with every right on the fabric: a thief of the first key that issues the credentials of servers.
// server is the directory of a server.
func Insider(t testing.TB, server, fleet string) fabric.Identity {
	t.Helper()
	signer, err := fabric.LoadOrCreateKey(filepath.Join(server, "broker", "server-signer.nk"), nkeys.PrefixByteAccount)
	if err != nil {
		t.Fatal(err)
	}
	return fabrictest.Server(t, signer, fleet)
}

// SealingKeys are the private keys of a member in its own directory, the newest first.
func SealingKeys(t testing.TB, dir string) []*ecdh.PrivateKey {
	t.Helper()
	keys, err := readSealingKeys(dir)
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

// readSealingKeys reads the keys, and makes the first one if there is none.
func readSealingKeys(dir string) (keys []*ecdh.PrivateKey, err error) {
	path := filepath.Join(dir, "sealing.nkey")
	if _, err := fabric.LoadOrCreateSealing(path, ""); err != nil {
		return nil, err
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(text)) {
		pair, err := nkeys.FromCurveSeed([]byte(strings.Fields(line)[0]))
		if err != nil {
			return nil, err
		}
		key, err := frame.PrivateKey(pair)
		if err != nil {
			return nil, err
		}
		keys = append(keys, key)
	}
	return keys, nil
}

// sealingKeys returns the newest private key of an agent, made at first use, and the public key of its fleet.
func sealingKeys(dir string, e wire.Enrolment) (*ecdh.PrivateKey, *ecdh.PublicKey, error) {
	if len(e.SealingKeys) == 0 {
		return nil, nil, errors.New("the enrolment has no sealing key")
	}
	keys, err := readSealingKeys(dir)
	if err != nil {
		return nil, nil, err
	}
	fleet, err := frame.PublicKey(e.SealingKeys[0])
	return keys[0], fleet, err
}
