package report

import (
	"crypto/rand"
	"fmt"
	"strconv"
	"time"
)

// A session is a letter, its start time and a random text. The time is in microseconds by the clock of the host, with
// 16 hexadecimal digits. So the later of two sessions is the greater text. Sessions of earlier builds had no order and
// begin with a smaller letter.
const (
	sessionMark = "s"
	timeEnd     = len(sessionMark) + 16
)

// newSession returns a session that begins now. It is later than the session after, even if the clock is behind.
func newSession(after string, now time.Time) string {
	begun := uint64(max(now.UnixMicro(), 0)) //nolint:gosec // not negative
	if other, ok := begunAt(after); ok {
		begun = max(begun, other+1)
	}
	return fmt.Sprintf("%s%016x%s", sessionMark, begun, rand.Text())
}

// begunAt returns the start time of a session, in microseconds.
func begunAt(session string) (micros uint64, ok bool) {
	if len(session) < timeEnd || session[:len(sessionMark)] != sessionMark {
		return 0, false
	}
	micros, err := strconv.ParseUint(session[len(sessionMark):timeEnd], 16, 63)
	return micros, err == nil
}
