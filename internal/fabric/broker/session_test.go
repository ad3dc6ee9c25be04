package broker_test

import (
	"crypto/tls"
	"net"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"drover/internal/fabric"
	"drover/internal/fabric/broker"
	"drover/internal/pki"
	"drover/internal/pki/pkitest"
)

// ticketed is the TLS of a broker that has a ticket key.
func ticketed(k *pki.Manager, key byte) *tls.Config {
	keys := &tls.Config{MinVersion: tls.VersionTLS13}
	keys.SetSessionTicketKeys([][32]byte{{key}})
	cfg := k.ServerTLS()
	cfg.WrapSession, cfg.UnwrapSession = keys.EncryptTicket, keys.DecryptTicket
	return cfg
}

// TestALinkComesBackByItsSession: the session of an agent outlives the broker, and a broker that has lost its ticket
// keys costs an agent nothing but a full handshake.
func TestALinkComesBackByItsSession(t *testing.T) {
	k, dir := pkitest.New(t), filepath.Join(t.TempDir(), "fabric")
	b := startWith(t, broker.Config{Dir: dir, TLS: ticketed(k, 1)})
	believed := make(chan tls.ConnectionState, 16)
	client := trusting(t, k)
	verify := client.VerifyConnection
	client.VerifyConnection = func(state tls.ConnectionState) error {
		err := verify(state)
		if err == nil {
			believed <- state
		}
		return err
	}
	up := make(chan struct{}, 16)
	c, err := fabric.Dial(t.Context(), fabric.DialConfig{
		URLs: []string{b.URL()}, Identity: issue(t, b).Identity, TLS: client, Log: testLog(t),
		OnConnected: func() { up <- struct{}{} },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	for n, step := range []struct {
		key      byte
		resumed  bool
		exchange tls.CurveID
	}{
		{1, false, tls.X25519MLKEM768},
		{1, true, tls.X25519},
		{1, true, tls.X25519},
		{2, false, tls.X25519MLKEM768},
		{2, true, tls.X25519MLKEM768},
		{2, true, tls.X25519},
	} {
		if n > 0 {
			b.Shutdown()
			b = startWith(t, broker.Config{Dir: dir, TLS: ticketed(k, step.key)})
		}
		select {
		case <-up:
		case <-time.After(patience):
			t.Fatalf("link %d does not come", n)
		}
		state := <-believed
		if state.DidResume != step.resumed || state.CurveID != step.exchange || state.Version != tls.VersionTLS13 {
			t.Errorf("link %d: resumed: %v, exchange: %s", n, state.DidResume, state.CurveID)
		}
	}
	c.Close()
	if len(believed) > 0 {
		t.Errorf("%d more brokers were believed", len(believed))
	}
}

// processorTime is what this process has used.
func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// BenchmarkHandshake measures the processor time of both sides for one handshake over TCP, of each kind, with the
// certificates and the verification of a fleet.
func BenchmarkHandshake(b *testing.B) {
	k := pkitest.New(b)
	server := ticketed(k, 1)
	at, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer at.Close()
	go func() {
		for {
			conn, err := at.Accept()
			if err != nil {
				return
			}
			_, _ = tls.Server(conn, server).Write([]byte("x"))
			_ = conn.Close()
		}
	}()
	client, err := pki.Trusting(k.CA())
	if err != nil {
		b.Fatal(err)
	}
	client.ServerName, client.MinVersion = "x", tls.VersionTLS13
	shake := func(cfg *tls.Config) tls.ConnectionState {
		conn, err := tls.Dial("tcp", at.Addr().String(), cfg)
		if err != nil {
			b.Fatal(err)
		}
		defer conn.Close()
		if _, err := conn.Read(make([]byte, 1)); err != nil {
			b.Fatal(err)
		}
		return conn.ConnectionState()
	}
	kinds := []*handshakes{
		{name: "full", exchange: tls.X25519MLKEM768},
		{name: "full-without-ML-KEM", exchange: tls.X25519},
		{name: "resumed-with-ML-KEM", exchange: tls.X25519MLKEM768, resumed: true},
		{name: "resumed", exchange: tls.X25519, resumed: true},
	}
	for _, kind := range kinds {
		kind.client = client.Clone()
		kind.client.CurvePreferences = []tls.CurveID{kind.exchange}
		if kind.resumed {
			kind.client.ClientSessionCache = tls.NewLRUClientSessionCache(1)
			shake(kind.client)
		}
	}
	for b.Loop() {
		for _, kind := range kinds { // in turn: other work on the machine affects all alike
			begun := processorTime(b)
			if shake(kind.client).DidResume != kind.resumed {
				b.Fatalf("%s is of the other kind", kind.name)
			}
			kind.used += processorTime(b) - begun
		}
	}
	for _, kind := range kinds {
		b.ReportMetric(float64(kind.used.Nanoseconds())/1e3/float64(b.N), kind.name+"-µs")
	}
	b.ReportMetric(float64(kinds[0].used)/float64(kinds[3].used), "full/resumed")
}

// handshakes are those of one kind, and the processor time that they have used.
type handshakes struct {
	name     string
	exchange tls.CurveID
	resumed  bool
	client   *tls.Config
	used     time.Duration
}
