package harness

import (
	"encoding/json"
	"fmt"

	"drover/client"
)

// Keys are those of the server.
func (f *Fleet) Keys() client.Keys {
	f.T.Helper()
	var k client.Keys
	if err := json.Unmarshal([]byte(f.CLI("keys", "list", "-o", "json")), &k); err != nil {
		f.T.Fatal(err)
	}
	return k
}

// Keyed waits until so many hosts are online and all of them go by the keys.
func (f *Fleet) Keyed(hosts int) {
	f.T.Helper()
	Eventually(f.T, fmt.Sprintf("%d hosts to go by the keys", hosts), func() bool {
		k := f.Keys()
		return k.Online == hosts && k.Reached == hosts
	})
}

// RotateKey replaces the key of a kind, in both steps, while so many hosts are online. The former one still counts.
func (f *Fleet) RotateKey(kind string, hosts int) {
	f.T.Helper()
	for range 2 {
		f.CLI("keys", "rotate", kind)
		f.Keyed(hosts)
	}
}
