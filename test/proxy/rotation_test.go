package proxy_test

import (
	"encoding/json"
	"syscall"
	"testing"

	"drover/client"
	"drover/test/harness"
)

// keys are those of the servers.
func (f *fleet) keys() client.Keys {
	f.T.Helper()
	var k client.Keys
	if err := json.Unmarshal([]byte(f.CLI("keys", "list", "-o", "json")), &k); err != nil {
		f.T.Fatal(err)
	}
	return k
}

// taken waits until all hosts that are online go by the keys.
func (f *fleet) taken(hosts int) {
	f.T.Helper()
	harness.Eventually(f.T, "all hosts to go by the keys", func() bool {
		k := f.keys()
		return k.Online == hosts && k.Reached == hosts
	})
}

// TestKeysAreReplacedBehindAProxy: agents that reach the servers through a proxy only, and the proxy itself, take other keys as all do, and
// nobody is met with a key that was dropped.
func TestKeysAreReplacedBehindAProxy(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	one := f.proxy("one", 3)
	behind := f.agent("web", "10.0.0.1", 3, one)
	const host = "3:10.0.0.1"
	f.works(host)
	for _, kind := range []string{"ca", "agent-signer", "manifest"} {
		f.CLI("keys", "rotate", kind)
		f.taken(1)
		f.CLI("keys", "rotate", kind)
		f.taken(1)
		f.works(host)
		for _, k := range f.keys().Keys {
			if k.Stage == "former" {
				f.CLI("keys", "drop", k.Kind, k.ID)
			}
		}
		f.taken(1)
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
