package report

import (
	"crypto/rand"
	"fmt"
	"strconv"
	"time"
)

// A session is a letter, when it began by the clock of the host, in microseconds and 16 hexadecimal digits, and what no
// other has: so the later of two is the greater text. The letter is greater than anything that the sessions of earlier
// builds, which had no order, begin with.
const (
	sessionMark = "s"
	timeEnd     = len(sessionMark) + 16
)

// newSession returns one that begins now, and comes after another one whatever the clock says.
func newSession(after string, now time.Time) string {
	begun := uint64(max(now.UnixMicro(), 0)) //nolint:gosec // not negative
	if other, ok := begunAt(after); ok {
		begun = max(begun, other+1)
	}
	return fmt.Sprintf("%s%016x%s", sessionMark, begun, rand.Text())
}

// begunAt reads when a session began, in microseconds.
func begunAt(session string) (micros uint64, ok bool) {
	if len(session) < timeEnd || session[:len(sessionMark)] != sessionMark {
		return 0, false
	}
	micros, err := strconv.ParseUint(session[len(sessionMark):timeEnd], 16, 63)
	return micros, err == nil
}
