package logs

import (
	"fmt"
	"strings"
	"testing"
)

// BenchmarkPack measures the compression of one member of a rotated file, of lines as servers write them.
func BenchmarkPack(b *testing.B) {
	var text strings.Builder
	for n := 0; text.Len() < memberSize; n++ {
		fmt.Fprintf(&text, "2026-11-22T03:%02d:%02d.%03dZ INFO request served method=GET path=/api/v1/items/%d status=%d duration=%dus client=10.2.%d.%d\n",
			n/600%60, n/10%60, n*97%1000, n*7919%100000, 200+n%7*n%3, n*31%90000, n%250, n*13%250)
	}
	var p packer
	b.SetBytes(memberSize)
	for b.Loop() {
		if _, err := p.pack([]byte(text.String()[:memberSize])); err != nil {
			b.Fatal(err)
		}
	}
}
