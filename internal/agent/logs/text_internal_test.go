package logs

import (
	"log/slog"
	"strings"
	"testing"

	"drover/internal/process"
)

// TestRotationBehindAReader: the first text is in a rotated file that a reader has not seen yet.
func TestRotationBehindAReader(t *testing.T) {
	k, err := Open(t.TempDir(), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	id := process.ID{Namespace: "shop", Name: "api"}
	out, errs, err := k.Begin(id, process.Hash(id)[:12]+"-1", &process.Spec{})
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()  //nolint:errcheck // the test is over
	defer errs.Close() //nolint:errcheck // the test is over
	if _, err := out.WriteString(strings.Repeat("text\n", 20_000)); err != nil {
		t.Fatal(err)
	}
	s := k.of(process.Hash(id)).streams[stdout]
	r, err := s.reader(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.close()
	if err := k.rotateOnce(s, leastSize, false, s.log.limits()); err != nil || s.freed.Load() == 0 {
		t.Fatalf("%d bytes are rotated: %v", s.freed.Load(), err)
	}
	if first := r.first(0); first != 0 {
		t.Errorf("the first text is at %d", first)
	}
}
