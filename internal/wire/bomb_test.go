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

// TestAnEnvelopeIsNotBelieved: what nobody has signed takes not much more memory than it has bytes.
func TestAnEnvelopeIsNotBelieved(t *testing.T) {
	const size = wire.MaxMessage
	for name, parts := range map[string][3]string{
		"signatures that are none":    {`{"others":[0`, `,0`, `]}`},
		"signatures that are nothing": {`{"others":[null`, `,null`, `]}`},
		"a manifest of numbers":       {`{"manifest":[0`, `,0`, `]}`},
		"signatures in signatures":    {`{"others":[[0`, `,0`, `]]}`},
		"fields that there are not":   {`{"x":[0`, `,0`, `]}`},
		"much too long":               {`{"manifest":"`, `AAAA`, strings.Repeat("A", size) + `"}`},
	} {
		data := []byte(parts[0] + strings.Repeat(parts[1], (size-100)/len(parts[1])) + parts[2])
		took := allocated(func() {
			if _, err := wire.Open(data, []string{"A"}, "U"); err == nil {
				t.Errorf("%s: it is taken", name)
			}
		})
		t.Logf("%s: %d bytes take %d", name, len(data), took)
		if took > 4*size {
			t.Errorf("%s: %d bytes take %d of memory", name, len(data), took)
		}
	}
}
