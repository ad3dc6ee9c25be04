package fabric

import (
	"bytes"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"testing/iotest"
)

// said is a connection on which somebody has said something.
type said struct {
	net.Conn
	io.Reader
}

func (s said) Read(p []byte) (int, error) { return s.Reader.Read(p) }

// heard is what is left of it, and how it ends, read in pieces of a length.
func heard(r io.Reader, piece int) (string, error) {
	var out bytes.Buffer
	w := newInspectedConn(said{Reader: r}, nil)
	p := make([]byte, piece)
	for {
		n, err := w.Read(p)
		out.Write(p[:n])
		if err != nil {
			return out.String(), err
		}
	}
}

// TestWhatIsHeard: all that brokers say is handed on as it is, but for messages with long headers, and for a ping before
// the first pong; in whatever pieces it comes.
func TestWhatIsHeard(t *testing.T) {
	long := strings.Repeat("x", longestHeader+1)
	short := "INFO {} \r\nPING\r\nPONG\r\n+OK\r\nMSG a 1 b 3\r\nx\r\n\r\nHMSG a 1 30 32\r\nNATS/1.0 503 xxxxxxxxxxxxxxxxxok\r\n-ERR 'Permissions Violation'\r\nMSG a 1 0\r\n\r\n"
	text := short + "HMSG a 1 1025 1027\r\n" + long + "ok\r\n" + short + "MSG a 1 100000\r\n" +
		strings.Repeat("y", 100_000) + "\r\n"
	want := strings.Replace(short, "PING\r\n", "", 1) + short + "MSG a 1 100000\r\n" + strings.Repeat("y", 100_000) + "\r\n"
	for _, piece := range []int{1, 7, 4096, 1 << 20} {
		for name, r := range map[string]io.Reader{
			"whole":        strings.NewReader(text),
			"byte by byte": iotest.OneByteReader(strings.NewReader(text)),
		} {
			if got, err := heard(r, piece); got != want || !errors.Is(err, io.EOF) {
				t.Errorf("%s, by %d: heard are %d bytes, want %d; %v", name, piece, len(got), len(want), err)
			}
		}
	}
}

// FuzzInspectedConn: nothing ends the process, and what is handed on does not depend on the pieces in which it comes,
// but for the message in which something is wrong.
func FuzzInspectedConn(f *testing.F) {
	for _, text := range []string{
		"PING\r\n", "MSG a 1 b 3\r\nx\r\n\r\nPONG\r\n", "HMSG a 1 2000 2000\r\nx", "MSG a 1 9223372036854775807\r\n",
		"-ERR 'x'\r\n", "MSG a 1 -1\r\n", "HMSG a 1 3 2\r\nab\r\n",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		whole, first := heard(strings.NewReader(text), 1<<16)
		pieces, second := heard(iotest.OneByteReader(strings.NewReader(text)), 3)
		if first.Error() != second.Error() || errors.Is(first, io.EOF) && whole != pieces || len(whole) > len(text) {
			t.Errorf("%q, %v, and in pieces %q, %v", whole, first, pieces, second)
		}
	})
}
