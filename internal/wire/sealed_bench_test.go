package wire_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nkeys"

	"drover/internal/wire"
)

// sample reads a recorded message.
func sample(b *testing.B, name string) []byte {
	b.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", "v1", name+".json"))
	if err != nil {
		b.Fatal(err)
	}
	return data
}

// signer makes a key.
func signer(b *testing.B, kind nkeys.PrefixByte) (key nkeys.KeyPair, public string) {
	b.Helper()
	key, err := nkeys.CreatePair(kind)
	if err != nil {
		b.Fatal(err)
	}
	if public, err = key.PublicKey(); err != nil {
		b.Fatal(err)
	}
	return key, public
}

// measure runs fn over and over on messages of this many bytes.
func measure(b *testing.B, bytes int, fn func() error) {
	b.Helper()
	b.SetBytes(int64(bytes))
	b.ReportAllocs()
	for b.Loop() {
		if err := fn(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkSealed is what it costs to sign and to verify what is said, on one processor: a report with states, outcomes
// and events, the answer to it, and a receipt for orders. A heartbeat is only looked at.
func BenchmarkSealed(b *testing.B) {
	agent, agentKey := signer(b, nkeys.PrefixByteUser)
	server, serverKey := signer(b, nkeys.PrefixByteAccount)
	report, answer, receipt, orders := sample(b, "report"), sample(b, "answer"), sample(b, "receipt"),
		sample(b, "orders")
	heartbeat, err := json.Marshal(wire.Report{
		Version: wire.Version, Session: strings.Repeat("s", 26), Number: 17280, At: 1795185600000,
		Place: "0123456789abcdef",
		Trust: &wire.TrustHeld{Generation: 3, Digest: "0123456789abcdef", Revision: 4},
	})
	if err != nil {
		b.Fatal(err)
	}

	b.Run("heartbeat/open", func(b *testing.B) {
		measure(b, len(heartbeat),
			func() error { _, _, err := wire.OpenReport(heartbeat, "fleet", agentKey); return err })
	})
	for name, c := range map[string]struct {
		said []byte
		seal func() ([]byte, error)
		open func(sealed []byte) error
	}{
		"report": {
			report, func() ([]byte, error) { return wire.SealReport(report, "fleet", agent) },
			func(sealed []byte) error { _, _, err := wire.OpenReport(sealed, "fleet", agentKey); return err },
		},
		"answer": {
			answer, func() ([]byte, error) { return wire.SealAnswer(answer, report, agentKey, server) },
			func(sealed []byte) error {
				_, err := wire.OpenAnswer(sealed, report, agentKey, []string{serverKey})
				return err
			},
		},
		"receipt": {
			receipt, func() ([]byte, error) { return wire.SealReceipt(receipt, orders, agent) },
			func(sealed []byte) error { _, err := wire.OpenReceipt(sealed, orders, agentKey); return err },
		},
	} {
		b.Run(name+"/seal", func(b *testing.B) {
			measure(b, len(c.said), func() error { _, err := c.seal(); return err })
		})
		sealed, err := c.seal()
		if err != nil {
			b.Fatal(err)
		}
		b.Run(name+"/open", func(b *testing.B) { measure(b, len(sealed), func() error { return c.open(sealed) }) })
	}
}
