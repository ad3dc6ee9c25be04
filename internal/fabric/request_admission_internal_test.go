package fabric

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

// intakeOf is one for services that have one request under way on each of their subjects, and one that has many.
func intakeOf(subjects ...string) *requestAdmission {
	in, all := &requestAdmission{}, map[*service]struct{}{{subject: ">"}: {}}
	for _, s := range subjects {
		all[&service{subject: s, alone: true}] = struct{}{}
	}
	in.setServices(all)
	return in
}

func message(subject, data string) string {
	return fmt.Sprintf("MSG %s 1 _INBOX.x %d\r\n%s\r\n", subject, len(data), data)
}

// TestWhatIsLeftOut: of one subject a worker gets one request after the other. Two wait, and the worker gets the newer
// one. A long one does not wait beside another. What nobody counts is always read.
func TestWhatIsLeftOut(t *testing.T) {
	in := intakeOf("reports.*.x", "reports.b.*") // a proxy's area is served once more
	hear := func(text, want string) {
		t.Helper()
		var out bytes.Buffer
		w := newInspectedConn(said{Reader: strings.NewReader(text)}, in)
		if _, err := io.Copy(&out, w); err != nil {
			t.Fatal(err)
		}
		if out.String() != want {
			t.Errorf("%.200q is handed on as %.200q, want %.200q", text, out.String(), want)
		}
	}
	begin := func(subject string, want bool) {
		t.Helper()
		if got := in.begin(subject); got != want {
			t.Errorf("a worker gets the request on %s: %v, want %v", subject, got, want)
		}
	}
	first, again, other, reply := message("reports.a.x", "first"), message("reports.a.x", "again"),
		message("reports.b.x", "other"), message("_INBOX.y", "reply")
	long := message("reports.a.x", strings.Repeat("x", shortRequest+1))
	hear(first+long+again+reply+other+again+reply+"PONG\r\n", first+again+reply+other+reply+"PONG\r\n")
	begin("reports.a.x", false) // first: again waits
	begin("reports.a.x", true)  // again
	hear(first, first)
	begin("reports.a.x", false) // a worker has again
	in.over("reports.a.x")
	with := "HMSG reports.a.x 1 12 14\r\nNATS/1.0\r\n\r\nok\r\n" // a header counts with nobody's bytes
	hear(with+other, with+other)
	begin("reports.a.x", true)
	in.over("reports.a.x")
	if want := 2 * leastSize; in.waitingBytes != want {
		t.Errorf("%d bytes wait, want %d", in.waitingBytes, want)
	}
	in.setServices(nil) // a service has ended
	begin("reports.b.x", true)
	in.over("reports.b.x")
	in.over("reports.b.x")
	if in.waitingBytes != 0 || len(in.inflight) != 0 {
		t.Errorf("%d bytes wait, and %v is under way", in.waitingBytes, in.inflight)
	}
}

// TestRequestsThatNeverCome: a request whose connection is lost before its end is not under way, and does not wait.
func TestRequestsThatNeverCome(t *testing.T) {
	lost := errors.New("lost")
	text := message("reports.a.x", strings.Repeat("x", 1000))
	for n := range len(text) {
		in := intakeOf("reports.>")
		w := newInspectedConn(said{Reader: io.MultiReader(strings.NewReader(text[:n]), iotest.ErrReader(lost))}, in)
		if _, err := io.Copy(io.Discard, w); !errors.Is(err, lost) {
			t.Fatal(err)
		}
		if len(in.inflight) != 0 || in.waitingBytes != 0 {
			t.Fatalf("after %d of %d bytes %v is under way, and %d bytes wait", n, len(text), in.inflight, in.waitingBytes)
		}
	}
}

// TestWaitingBytesAreBounded: long requests leave room for short ones, and those end somewhere, too.
func TestWaitingBytesAreBounded(t *testing.T) {
	in := intakeOf("*")
	found := func(subject string, size int) bool {
		left, _ := in.admit(subject, size)
		return !left
	}
	fill := func(size, most int) {
		t.Helper()
		before := in.waitingBytes
		for i := 0; found(fmt.Sprint(size, "-", i), size); i++ {
		}
		if in.waitingBytes > most || in.waitingBytes+size <= most || in.waitingBytes == before {
			t.Errorf("%d bytes wait, of %d", in.waitingBytes, most)
		}
	}
	fill(1<<20, bytesWaiting)
	if found("long", shortRequest+1) {
		t.Error("a long one found room")
	}
	fill(shortRequest, bytesWaitingShort)
	for subject := range in.inflight {
		in.begin(subject)
	}
	if !found("long", shortRequest+1) {
		t.Error("there is no room when nobody waits")
	}
}

// TestFewerRequestsWaitThanTheLibraryHolds: the library would drop a request beyond its own limit without a word.
func TestFewerRequestsWaitThanTheLibraryHolds(t *testing.T) {
	in := intakeOf("*")
	n := 0
	for n <= pendingLimit {
		if left, _ := in.admit(fmt.Sprint(n), 1); left {
			break
		}
		n++
	}
	if n > pendingLimit || n < pendingLimit/2 {
		t.Errorf("%d requests wait, want at most %d", n, pendingLimit)
	}
}

func TestCovers(t *testing.T) {
	for _, tt := range []struct {
		pattern, subject string
		want             bool
	}{
		{"a.b", "a.b", true},
		{"a.b", "a.c", false},
		{"a.b", "a", false},
		{"a", "a.b", false},
		{"a.*", "a.b", true},
		{"a.*", "a.b.c", false},
		{"a.*", "a", false},
		{"*.b", "a.b", true},
		{"a.>", "a.b.c", true},
		{"a.>", "a", false},
		{">", "a.b", true},
		{"*", "a", true},
		{"a.*.c", "a.b.d", false},
	} {
		if got := covers(tt.pattern, tt.subject); got != tt.want {
			t.Errorf("%q covers %q: %v", tt.pattern, tt.subject, got)
		}
	}
}
