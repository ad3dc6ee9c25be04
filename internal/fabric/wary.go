package fabric

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
)

const (
	// longestLine is the longest line of a broker: one that tells of itself, which may name all brokers of a cluster.
	longestLine = 64 << 10
	// longestComplaint is the longest line that tells of an error.
	longestComplaint = 1 << 10
	// mostComplaints is how many of these there may be over one connection: each is a line of a log.
	mostComplaints = 32
)

// The errors of a broker after which the library goes on, or comes again: what they begin with, and what they are. After any other one it
// gives up for good.
var (
	complaints = []string{
		"permissions violation", "maximum subscriptions exceeded", "authorization violation", "user authentication expired",
		"user authentication revoked", "account authentication expired",
	}
	wholeComplaints = []string{
		"stale connection", "maximum connections exceeded", "maximum account active connections exceeded", "unknown protocol operation",
	}
)

// wary is a connection to a broker that may be somebody else's by now. The library believes what a broker says of lengths, and a wrong one
// ends the process; so what it reads is looked at first. What no broker of ours says ends the connection, and another one is made.
type wary struct {
	net.Conn
	// line is the beginning of a line whose end has not come yet, payload how many bytes of a message are to come, with its end.
	line    []byte
	payload int
	found   int // complaints
	bad     error
}

// Read reads what is in order.
func (w *wary) Read(p []byte) (int, error) {
	if w.bad != nil {
		return 0, w.bad
	}
	n, err := w.Conn.Read(p)
	if w.bad = w.look(p[:n]); w.bad != nil {
		return 0, w.bad
	}
	return n, err
}

// look follows what is read. Lines have one form only, so that the library reads the same lengths out of them.
func (w *wary) look(data []byte) error {
	for len(data) > 0 {
		if w.payload > 0 {
			n := min(w.payload, len(data))
			if err := w.end(data[:n]); err != nil {
				return err
			}
			w.payload -= n
			data = data[n:]
			continue
		}
		end := bytes.IndexByte(data, '\n')
		if end < 0 {
			end = len(data) - 1
		}
		if len(w.line)+end+1 > longestLine {
			return fmt.Errorf("broker sends a line of more than %d bytes", longestLine)
		}
		w.line = append(w.line, data[:end+1]...)
		data = data[end+1:]
		if w.line[len(w.line)-1] != '\n' {
			return nil
		}
		if err := w.read(string(w.line)); err != nil {
			return err
		}
		w.line = w.line[:0]
	}
	return nil
}

// ending ends lines and messages.
const ending = "\r\n"

// end looks at the next bytes of a message: the last two have to be its end.
func (w *wary) end(data []byte) error {
	for i := max(0, w.payload-len(ending)); i < w.payload && i < len(data); i++ {
		if left := w.payload - i; data[i] != ending[len(ending)-left] {
			return errors.New("broker sends a message that does not end where it should")
		}
	}
	return nil
}

// read takes in a line.
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
	return fmt.Errorf("broker sends what none says: %.100q", line)
}

// message notes how long the message after a line is.
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
		return fmt.Errorf("broker sends a message of %.100q bytes, expected at most %d", fields[len(fields)-1], MaxMessage)
	}
	w.payload = int(size) + len(ending)
	return nil
}

// complaint looks at an error.
func (w *wary) complaint(text string) error {
	if len(text) > longestComplaint {
		return fmt.Errorf("broker tells of an error in %d bytes, expected at most %d", len(text), longestComplaint)
	}
	if w.found++; w.found > mostComplaints {
		return fmt.Errorf("broker tells of more than %d errors", mostComplaints)
	}
	said := strings.ToLower(strings.Trim(text, " '"))
	begins := func(known string) bool { return strings.HasPrefix(said, known) }
	if slices.Contains(wholeComplaints, said) || slices.ContainsFunc(complaints, begins) {
		return nil
	}
	return fmt.Errorf("broker ends the connection: %q", text)
}
