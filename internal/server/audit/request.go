package audit

import (
	"crypto/rand"
	"encoding/hex"
	"net"
	"net/http"
	"strings"
	"unicode"

	"drover/internal/clip"
)

// longestRequestID is the longest request id of a caller, in bytes.
const longestRequestID = 64

// RequestID returns the id that a caller has given its request, if it is fit to be echoed and stored, else a new one.
func RequestID(given string) string {
	if given != "" && len(given) <= longestRequestID && !strings.ContainsFunc(given, func(c rune) bool {
		return (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && !strings.ContainsRune("-_.:", c)
	}) {
		return given
	}
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails (crypto/rand)
	return hex.EncodeToString(b[:])
}

// Remote returns the address of a request without its port; "socket" if the request has no address.
func Remote(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return "socket"
	}
	return host
}

// Clip shortens a text for the audit log or a message to so many bytes. It removes characters that would move the
// cursor of a terminal.
func Clip(text string, most int) string {
	printable := strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return '?'
		}
		return r
	}, text)
	return clip.Marked(printable, most, "…")
}
