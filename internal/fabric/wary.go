package fabric

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
)

const (
	// longestLine is the longest line of a broker: its own description, which may name all brokers of a cluster.
	longestLine = 64 << 10
	// longestComplaint is the longest line with an error.
	longestComplaint = 1 << 10
	// mostComplaints is the largest number of errors over one connection: each is a line in the log.
	mostComplaints = 32
)

// survived reports whether the library continues or reconnects after an error of a broker. After any other error it
// gives up for good.
func survived(said string) bool {
	switch said {
	case "stale connection", "maximum connections exceeded", "maximum account active connections exceeded",
		"unknown protocol operation":
		return true
	}
	for _, beginning := range []string{
		"permissions violation", "maximum subscriptions exceeded", "authorization violation",
		"user authentication expired",
		"user authentication revoked", "account authentication expired",
	} {
		if strings.HasPrefix(said, beginning) {
			return true
		}
	}
	return false
}

// longestHeader is the longest accepted header of a message. Only brokers send headers, and only the short header for
// a subject without subscribers.
const longestHeader = 1 << 10

// wary is a connection to a broker that may be hostile. The library trusts the lengths that a broker sends, and a
// wrong length ends the process. It also reads headers, which anybody may send, before it checks whether a subscriber
// wants the message. So wary checks the bytes first. It closes the connection on input that no drover broker sends,
// and drops messages with long headers.
type wary struct {
	net.Conn
	in *bufio.Reader
	// line is the beginning of an incomplete line; out is the unread rest of a complete line.
	line, out []byte
	// payload is the number of missing bytes of a message, with its end; unread tells to drop them.
	payload int
	unread  bool
	// intake tells which messages to accept; nil accepts all. lost must be called if the present message does not
	// arrive completely.
	intake *intake
	lost   func()
	found  int // complaints
	bad    error
}

// warily connects to a broker in this process.
type warily struct {
	broker interface{ InProcessConn() (net.Conn, error) }
	intake *intake
}

// InProcessConn implements nats.InProcessConnProvider.
func (w warily) InProcessConn() (net.Conn, error) {
	conn, err := w.broker.InProcessConn()
	if err != nil {
		return nil, err
	}
	return newWary(conn, w.intake), nil
}

func newWary(conn net.Conn, in *intake) *wary {
	return &wary{Conn: conn, in: bufio.NewReaderSize(conn, readAhead), intake: in}
}

// readAhead is the number of bytes in one read, the same as in the library.
const readAhead = 32 << 10

// Read returns checked bytes: complete lines, and messages. It waits for no more bytes than are needed.
func (w *wary) Read(p []byte) (n int, err error) {
	for n < len(p) && w.bad == nil && (n == 0 || w.ready()) {
		var more int
		if more, err = w.next(p[n:]); err != nil {
			w.bad = err
			w.miss(err)
		}
		n += more
	}
	if n > 0 {
		return n, nil
	}
	err = w.bad
	if timeout, is := errors.AsType[net.Error](err); is && timeout.Timeout() {
		w.bad = nil
	}
	return 0, err
}

// ready reports whether next has bytes without waiting.
func (w *wary) ready() bool {
	there, _ := w.in.Peek(w.in.Buffered()) // of what there is
	return len(w.out) > 0 || w.payload > 0 && len(there) > 0 || w.payload == 0 && bytes.IndexByte(there, '\n') >= 0
}

// next reads a part of a line or of a message; nothing if it is dropped.
func (w *wary) next(p []byte) (n int, err error) {
	if len(w.out) > 0 {
		n = copy(p, w.out)
		w.out = w.out[n:]
		return n, nil
	}
	if w.payload == 0 {
		return 0, w.readLine()
	}
	n, err = w.in.Read(p[:min(len(p), w.payload)])
	if bad := w.end(p[:n]); bad != nil {
		return 0, bad
	}
	w.payload -= n
	if w.unread {
		n = 0
	}
	return n, err
}

// readLine reads a line, or a part of it.
func (w *wary) readLine() error {
	part, err := w.in.ReadSlice('\n')
	w.line = append(w.line, part...)
	switch {
	case len(w.line) > longestLine:
		return fmt.Errorf("broker sends a line of more than %d bytes", longestLine)
	case errors.Is(err, bufio.ErrBufferFull):
		return nil
	case err != nil:
		return err
	}
	w.unread = false
	if err := w.read(string(w.line)); err != nil {
		return err
	}
	if !w.unread {
		w.out = append(w.out[:0], w.line...)
	}
	w.line = w.line[:0]
	return nil
}

// ending is the end of lines and messages.
const ending = "\r\n"

// end checks the next bytes of a message: its last two must be its end.
func (w *wary) end(data []byte) error {
	for i := max(0, w.payload-len(ending)); i < len(data); i++ {
		if left := w.payload - i; data[i] != ending[len(ending)-left] {
			return errors.New("broker sends a message without its end of line")
		}
	}
	return nil
}

// read accepts a line. Lines have one form only, so that the library reads the same lengths.
func (w *wary) read(line string) error {
	line, ended := strings.CutSuffix(line, ending)
	verb, rest, _ := strings.Cut(line, " ")
	switch {
	case !ended || strings.ContainsAny(line, "\r\t\x00"):
	case verb == "MSG" || verb == "HMSG":
		return w.message(verb, rest)
	case verb == "INFO", line == "PING", line == "PONG", line == "+OK":
		return nil
	case verb == "-ERR":
		return w.complaint(rest)
	}
	return fmt.Errorf("broker sends an unknown command: %.100q", line)
}

// message notes the length of the message after a line.
func (w *wary) message(verb, rest string) error {
	fields := strings.Fields(rest)
	least := len([]string{"subject", "subscription", "size"})
	if verb == "HMSG" {
		least++
	}
	if len(fields) < least || len(fields) > least+1 {
		return fmt.Errorf("broker sends a message with %d words, expected %d or %d", len(fields), least, least+1)
	}
	size, err := strconv.ParseUint(fields[len(fields)-1], 10, 31)
	if err != nil || size > MaxMessage {
		return fmt.Errorf("broker sends a message of %.100q bytes, expected at most %d", fields[len(fields)-1],
			MaxMessage)
	}
	w.payload, w.unread = int(size)+len(ending), false
	body := int(size)
	if verb == "HMSG" {
		header, err := strconv.ParseUint(fields[len(fields)-2], 10, 31)
		if err != nil || header > size {
			return fmt.Errorf("broker sends headers of %.100q bytes in a message of %d", fields[len(fields)-2], size)
		}
		w.unread = header > longestHeader
		body -= int(header)
	}
	if w.lost = nil; !w.unread {
		w.unread, w.lost = w.intake.begin(fields[0], body)
	}
	return nil
}

// miss notes a message that does not arrive completely.
func (w *wary) miss(err error) {
	if timeout, is := errors.AsType[net.Error](err); is && timeout.Timeout() || w.payload == 0 || w.lost == nil {
		return
	}
	w.lost()
	w.lost = nil
}

// complaint checks an error line.
func (w *wary) complaint(text string) error {
	if len(text) > longestComplaint {
		return fmt.Errorf("broker sends an error of %d bytes, expected at most %d", len(text), longestComplaint)
	}
	if w.found++; w.found > mostComplaints {
		return fmt.Errorf("broker sends more than %d errors", mostComplaints)
	}
	// The same as in the library.
	if said := strings.TrimLeft(strings.TrimRight(strings.TrimSpace(text), "'"), "'"); survived(strings.ToLower(said)) {
		return nil
	}
	return fmt.Errorf("broker ends the connection: %q", text)
}
