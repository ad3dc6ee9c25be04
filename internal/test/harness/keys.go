package harness

import (
	"context"
	"fmt"
	"strings"

	v1 "drover/api/v1"
)

// Keys are those of the server.
func (f *Fleet) Keys() v1.Keys {
	f.T.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	keys, err := f.local.Keys(ctx)
	if err != nil {
		f.T.Fatal(err)
	}
	return keys
}

// keyed reports whether so many hosts are online and all of them go by the keys.
func (f *Fleet) keyed(hosts int) bool {
	f.T.Helper()
	k := f.Keys()
	return k.Online == hosts && k.Reached == hosts
}

// report has each host that is online report to the server: the start of a process that ends at once is an event.
func (f *Fleet) report() {
	f.T.Helper()
	var online []string
	for id, is := range f.hosts() {
		if is {
			online = append(online, id)
		}
	}
	if len(online) == 0 {
		return
	}
	ends := &Process{
		Namespace: "harness", Name: "ends",
		Identity: Object{"proc_name": "ends", "setup_path": f.Dir, "user": "root"},
		Control:  Object{"start_cmd": "false"},
	}
	for host, r := range f.Operate(ends, 0, online...) {
		if strings.HasPrefix(r.Msg, "spec.") {
			f.T.Fatalf("%s was not asked: %s", host, r.Msg)
		}
	}
}

// Keyed waits until so many hosts are online and all of them go by the keys.
func (f *Fleet) Keyed(hosts int) {
	f.T.Helper()
	Eventually(f.T, fmt.Sprintf("%d hosts to go by the keys", hosts), func() bool {
		return f.keyed(hosts)
	})
}

// RotateKey replaces the key of a kind, in both steps, while so many hosts are online. The former one still counts. It
// does not wait for heartbeats, with which hosts learn of keys otherwise, up to a minute later: Keyed does.
func (f *Fleet) RotateKey(kind string, hosts int) {
	f.T.Helper()
	for range 2 {
		f.CLI("keys", "rotate", kind)
		f.KeyedSoon(hosts)
	}
}

// KeyedSoon is Keyed for hosts that report meanwhile.
func (f *Fleet) KeyedSoon(hosts int) {
	f.T.Helper()
	Eventually(f.T, fmt.Sprintf("%d hosts to go by the keys", hosts), func() bool {
		if f.keyed(hosts) {
			return true
		}
		f.report()
		return false
	})
}
