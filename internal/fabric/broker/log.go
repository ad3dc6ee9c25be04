package broker

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"
)

// logBridge forwards the server's log lines. Notices, and all lines during the start, are about drover's own
// configuration, so they are for developers only. Later warnings and errors mostly concern one client, so they are
// warnings here. A client can cause any number of them, so their rate is bounded.
type logBridge struct {
	log *slog.Logger
	// denied gets the lines about clients without the necessary rights; it may be nil.
	denied func(text string)

	mu      sync.Mutex
	started bool
	fatal   []string  // the errors logged before the start ended
	minute  time.Time // the minute of denials and rest
	denials budget
	rest    budget // lines of other kinds: many denials of one client must not hide these
}

// budget is the number of written and of dropped lines in a minute.
type budget struct{ spent, dropped int }

const (
	bridged     = "embedded nats server said"
	maxWarnings = 60  // per minute, for denials and for the rest
	maxLine     = 500 // bytes of a line, because it quotes clients
)

// Noticef, Debugf and Tracef forward a line for developers. Lines about slow clients are for operators, too.
func (b *logBridge) Noticef(format string, v ...any) {
	if strings.Contains(format, "Slow Consumer") {
		b.warn(format, v)
		return
	}
	b.log.Debug(bridged, "text", fmt.Sprintf(format, v...))
}
func (b *logBridge) Debugf(format string, v ...any) { b.Noticef(format, v...) }
func (b *logBridge) Tracef(format string, v ...any) { b.Noticef(format, v...) }

// Warnf and Errorf forward a line for operators.
func (b *logBridge) Warnf(format string, v ...any)  { b.warn(format, v) }
func (b *logBridge) Errorf(format string, v ...any) { b.warn(format, v) }

func (b *logBridge) warn(format string, v []any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.started {
		b.log.Debug(bridged, "text", fmt.Sprintf(format, v...))
		return
	}
	if now := time.Now().Truncate(time.Minute); now != b.minute {
		if dropped := b.denials.dropped + b.rest.dropped; dropped > 0 {
			b.log.Warn("left out log lines of the embedded nats server", "lines", dropped)
		}
		b.minute, b.denials, b.rest = now, budget{}, budget{}
	}
	text := fmt.Sprintf(format, v...)
	lines := &b.rest
	if strings.Contains(text, "Violation") || strings.Contains(text, "authentication error") {
		lines = &b.denials
		if b.denied != nil {
			b.denied(text)
		}
	}
	if lines.spent == maxWarnings {
		lines.dropped++
		return
	}
	lines.spent++
	b.log.Warn(bridged, "text", strings.ToValidUTF8(text[:min(len(text), maxLine)], ""))
}

// Fatalf keeps the line: before the server has started, its starter reports the reason.
func (b *logBridge) Fatalf(format string, v ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	text := fmt.Sprintf(format, v...)
	if b.started {
		b.log.Error(bridged, "text", text)
		return
	}
	b.fatal = append(b.fatal, text)
}

// failed reports whether a reason that begun will return is about something.
func (b *logBridge) failed(what string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.ContainsFunc(b.fatal, func(text string) bool { return strings.Contains(text, what) })
}

// begun records that the server has started; it returns the logged reasons of a failed start, in order.
func (b *logBridge) begun() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.started = true
	return b.fatal
}
