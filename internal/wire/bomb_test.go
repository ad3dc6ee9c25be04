package wire_test

import (
	"runtime"
	"strings"
	"testing"

	"drover/internal/wire"
)

// allocated is how many bytes of memory fn asks for.
func allocated(fn func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	fn()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// TestABombIsNotBelieved: what nobody has signed takes next to no memory, whatever it has in it.
func TestABombIsNotBelieved(t *testing.T) {
	const size = wire.MaxMessage
	_, public := key(t, "s")
	body := []byte(`{"orders":[{}` + strings.Repeat(",{}", size/3) + `]}`)
	for name, data := range map[string][]byte{
		"not sealed": body, "forged": signed(public, make([]byte, bodyAt-signatureAt), body),
		"seals only": append([]byte{1, 255}, make([]byte, size)...),
	} {
		took := allocated(func() {
			if _, err := wire.OpenTrust(data, []string{public}, "U"); err == nil {
				t.Errorf("%s: it is taken", name)
			}
		})
		if took > 1<<20 {
			t.Errorf("%s: %d bytes take %d of memory", name, len(data), took)
		}
	}
}
