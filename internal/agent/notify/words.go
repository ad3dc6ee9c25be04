package notify

import (
	"encoding/binary"
	"math"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unicode"
	"unicode/utf8"

	"drover/internal/agent/instance"
)

// controlSize is room for the credentials of a sender, the time and all descriptors that a message can have
// (SCM_MAX_FD), in bytes. What has no room the kernel closes while the reader waits.
func controlSize() int { return controlLength + syscall.CmsgSpace(253*4) }

// parseControl returns what the kernel tells of a message: the pid of the sender, 0 if there is none, the descriptors
// that came with it, and when it was sent.
func parseControl(control []byte) (pid int, fds []int, sent time.Time) {
	messages, err := syscall.ParseSocketControlMessage(control)
	if err != nil {
		return 0, nil, sent
	}
	for i := range messages {
		m := &messages[i]
		if c, err := syscall.ParseUnixCredentials(m); err == nil {
			pid = int(c.Pid)
		}
		if rights, err := syscall.ParseUnixRights(m); err == nil {
			fds = append(fds, rights...)
		}
		const word = 8
		if m.Header.Level == syscall.SOL_SOCKET && m.Header.Type == syscall.SCM_TIMESTAMP && len(m.Data) >= 2*word {
			at := syscall.Timeval{
				Sec: int64(binary.NativeEndian.Uint64(m.Data)), Usec: int64(binary.NativeEndian.Uint64(m.Data[word:])), //nolint:gosec // the kernel's
			}
			sent = time.Unix(at.Unix())
		}
	}
	return pid, fds, sent
}

// words are the assignments of one message.
type words struct {
	now                         time.Duration
	ready, reloading, stopping  bool
	watchdog, trigger, extended bool
	status                      *string
	extend                      time.Duration
	mainPID                     int
	main                        instance.Identity
}

// maxExtension bounds one EXTEND_TIMEOUT_USEC=, so that no sum of times overflows.
const maxExtension = 24 * time.Hour

// read reads the lines NAME=value of a message. It ignores what it does not know, as sd_notify(3) demands.
func read(message []byte, now time.Duration) words {
	w := words{now: now}
	for line := range strings.Lines(string(message)) {
		name, value, _ := strings.Cut(strings.TrimRight(line, "\n"), "=")
		switch name {
		case "READY":
			w.ready = value == "1"
		case "RELOADING":
			w.reloading = value == "1"
		case "STOPPING":
			w.stopping = value == "1"
		case "STATUS":
			text := clean(value)
			w.status = &text
		case "WATCHDOG":
			w.watchdog, w.trigger = value == "1", value == "trigger"
		case "MAINPID":
			if pid, err := strconv.ParseInt(value, 10, 32); err == nil && pid > 1 {
				w.mainPID = int(pid)
			}
		case "EXTEND_TIMEOUT_USEC":
			if n, err := strconv.ParseUint(value, 10, 64); err == nil {
				w.extended = true
				w.extend = min(time.Duration(min(n, math.MaxInt64/1000))*time.Microsecond, maxExtension)
			}
		}
	}
	return w
}

// apply adds the words to what was said before.
func (w words) apply(s *State) {
	if w.reloading {
		s.Reloading = true
	}
	if w.ready && !w.reloading {
		if s.Reloading {
			s.Reloading = false
			s.Reloads++
		}
		s.Ready = true
	}
	s.Stopping = s.Stopping || w.stopping
	if w.status != nil {
		s.Status, s.HasStatus = *w.status, true
	}
	if w.main.PID != 0 {
		s.Main = w.main
	}
	if w.extended {
		s.Extended, s.ExtendedAt = w.now+w.extend, w.now
	}
	switch {
	case w.watchdog:
		s.Watchdog, s.Triggered = max(s.Watchdog, w.now), false
	case w.trigger:
		s.Triggered = true
	}
}

// clean makes one line of a text that a terminal can show.
func clean(text string) string {
	text = strings.Map(func(r rune) rune {
		switch {
		case r == utf8.RuneError, unicode.IsControl(r), unicode.Is(unicode.Bidi_Control, r):
			return -1
		}
		return r
	}, strings.ToValidUTF8(text, ""))
	if len(text) <= maxStatus {
		return text
	}
	end := maxStatus
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end]
}
