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
	// maxErrorLine is the longest line with an error.
	maxErrorLine = 1 << 10
	// maxErrors is the largest number of errors over one connection: each is a line in the log.
	maxErrors = 32
)

// survived reports whether the library continues or reconnects after an error of a broker. After any other error the
// library never reconnects.
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

// inspectedConn is a connection to a broker that may be hostile. The library trusts the lengths that a broker sends,
// and a wrong length ends the process. It also reads headers, which anyone may send, before it checks whether a
// subscriber wants the message. So inspectedConn checks the bytes first. It closes the connection on input that no
// drover broker sends, and drops messages with long headers. It also drops a ping that comes before the answer to the
// connect: a busy broker sends one after two seconds, and the library would end the connection for it.
type inspectedConn struct {
	net.Conn
	in *bufio.Reader
	// line is the beginning of an incomplete line; out is the unread rest of a complete line.
	line, out []byte
	// payload is the number of missing bytes of a message, with its end; unread tells to drop them, or this line.
	payload int
	unread  bool
	// admission tells which messages to accept; nil accepts all. lost must be called if the present message does not
	// arrive completely.
	admission  *requestAdmission
	dropped    func()
	connected  bool // the broker has answered the connect
	errorCount int  // error lines of the broker
	bad        error
}

// inspectedBroker connects to a broker in this process.
type inspectedBroker struct {
	broker    interface{ InProcessConn() (net.Conn, error) }
	admission *requestAdmission
}

// InProcessConn implements nats.InProcessConnProvider.
func (b inspectedBroker) InProcessConn() (net.Conn, error) {
	conn, err := b.broker.InProcessConn()
	if err != nil {
		return nil, err
	}
	return newInspectedConn(conn, b.admission), nil
}

func newInspectedConn(conn net.Conn, in *requestAdmission) *inspectedConn {
	return &inspectedConn{Conn: conn, in: bufio.NewReaderSize(conn, readAhead), admission: in}
}

// readAhead is the number of bytes in one read, the same as in the library.
const readAhead = 32 << 10

// Read returns checked bytes: complete lines, and messages. It waits for no more bytes than are needed.
func (c *inspectedConn) Read(p []byte) (n int, err error) {
	for n < len(p) && c.bad == nil && (n == 0 || c.ready()) {
		var more int
		if more, err = c.next(p[n:]); err != nil {
			c.bad = err
			c.miss(err)
		}
		n += more
	}
	if n > 0 {
		return n, nil
	}
	err = c.bad
	if timeout, is := errors.AsType[net.Error](err); is && timeout.Timeout() {
		c.bad = nil
	}
	return 0, err
}

// ready reports whether next has bytes without waiting.
func (c *inspectedConn) ready() bool {
	there, _ := c.in.Peek(c.in.Buffered()) // the buffered bytes
	return len(c.out) > 0 || c.payload > 0 && len(there) > 0 || c.payload == 0 && bytes.IndexByte(there, '\n') >= 0
}

// next reads a part of a line or of a message; it returns nothing for a dropped message.
func (c *inspectedConn) next(p []byte) (n int, err error) {
	if len(c.out) > 0 {
		n = copy(p, c.out)
		c.out = c.out[n:]
		return n, nil
	}
	if c.payload == 0 {
		return 0, c.readLine()
	}
	n, err = c.in.Read(p[:min(len(p), c.payload)])
	if bad := c.end(p[:n]); bad != nil {
		return 0, bad
	}
	c.payload -= n
	if c.unread {
		n = 0
	}
	return n, err
}

// readLine reads a line, or a part of it.
func (c *inspectedConn) readLine() error {
	part, err := c.in.ReadSlice('\n')
	c.line = append(c.line, part...)
	switch {
	case len(c.line) > longestLine:
		return fmt.Errorf("broker sends a line of more than %d bytes", longestLine)
	case errors.Is(err, bufio.ErrBufferFull):
		return nil
	case err != nil:
		return err
	}
	c.unread = false
	if err := c.read(string(c.line)); err != nil {
		return err
	}
	if !c.unread {
		c.out = append(c.out[:0], c.line...)
	}
	c.line = c.line[:0]
	return nil
}

// ending is the end of lines and messages.
const ending = "\r\n"

// end checks the next bytes of a message: its last two must be its end.
func (c *inspectedConn) end(data []byte) error {
	for i := max(0, c.payload-len(ending)); i < len(data); i++ {
		if left := c.payload - i; data[i] != ending[len(ending)-left] {
			return errors.New("broker sends a message without its end of line")
		}
	}
	return nil
}

// read accepts a line. Lines have one form only, so that the library reads the same lengths.
func (c *inspectedConn) read(line string) error {
	line, ended := strings.CutSuffix(line, ending)
	verb, rest, _ := strings.Cut(line, " ")
	switch {
	case !ended || strings.ContainsAny(line, "\r\t\x00"):
	case verb == "MSG" || verb == "HMSG":
		return c.message(verb, rest)
	case line == "PING":
		c.unread = !c.connected
		return nil
	case line == "PONG":
		c.connected = true
		return nil
	case verb == "INFO", line == "+OK":
		return nil
	case verb == "-ERR":
		return c.complaint(rest)
	}
	return fmt.Errorf("broker sends an unknown command: %.100q", line)
}

// message stores the length of the message after a line.
func (c *inspectedConn) message(verb, rest string) error {
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
	c.payload, c.unread = int(size)+len(ending), false
	body := int(size)
	if verb == "HMSG" {
		header, err := strconv.ParseUint(fields[len(fields)-2], 10, 31)
		if err != nil || header > size {
			return fmt.Errorf("broker sends headers of %.100q bytes in a message of %d", fields[len(fields)-2], size)
		}
		c.unread = header > longestHeader
		body -= int(header)
	}
	if c.dropped = nil; !c.unread {
		c.unread, c.dropped = c.admission.admit(fields[0], body)
	}
	return nil
}

// miss reports a message that does not arrive completely.
func (c *inspectedConn) miss(err error) {
	if timeout, is := errors.AsType[net.Error](err); is && timeout.Timeout() || c.payload == 0 || c.dropped == nil {
		return
	}
	c.dropped()
	c.dropped = nil
}

// complaint checks an error line.
func (c *inspectedConn) complaint(text string) error {
	if len(text) > maxErrorLine {
		return fmt.Errorf("broker sends an error of %d bytes, expected at most %d", len(text), maxErrorLine)
	}
	if c.errorCount++; c.errorCount > maxErrors {
		return fmt.Errorf("broker sends more than %d errors", maxErrors)
	}
	// The library trims the text in the same way.
	if said := strings.TrimLeft(strings.TrimRight(strings.TrimSpace(text), "'"), "'"); survived(strings.ToLower(said)) {
		return nil
	}
	return fmt.Errorf("broker ends the connection: %q", text)
}
