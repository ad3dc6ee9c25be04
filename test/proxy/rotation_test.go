package proxy_test

import (
	"syscall"
	"testing"
)

// TestKeysAreReplacedBehindAProxy: agents that reach the servers through a proxy only, and the proxy itself, take other
// keys as all do, and nobody is met with a key that was dropped.
func TestKeysAreReplacedBehindAProxy(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	one := f.proxy("one", 3)
	behind := f.agent("web", "10.0.0.1", 3, one)
	const host = "3:10.0.0.1"
	f.works(host)
	for _, kind := range []string{"ca", "agent-signer", "proxy-signer", "server-signer", "sealing", "manifest"} {
		f.RotateKey(kind, 1)
		f.works(host)
		for _, k := range f.Keys().Keys {
			if k.Stage == "former" {
				f.CLI("keys", "drop", k.Kind, k.ID)
			}
		}
		f.KeyedSoon(1)
		f.Online(host)
		f.works(host)
	}
	behind.End(syscall.SIGTERM)
	one.End(syscall.SIGTERM)
	f.run(one)
	f.reached("one")
	f.StartAgent("web")
	f.carries("one", 1)
	f.works(host)
}
