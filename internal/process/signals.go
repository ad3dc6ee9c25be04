package process

import (
	"slices"

	"drover/internal/spec"
)

// ReadSignal returns the name that spec.Signals has for a signal that a person writes, such as "sigterm".
func ReadSignal(text string) (name string, err error) { return spec.SignalName(text) }

// The numbers of signals on amd64 and arm64: the first real-time signal is SIGRTMIN of glibc, whose threads use the two
// signals below it.
const (
	firstSignal   = 1
	firstRealtime = 34
)

// SignalNumber returns the number of a name of spec.Signals; 0 if there is none.
func SignalNumber(name string) int {
	if i := slices.Index(spec.RealtimeSignals(), name); i >= 0 {
		return firstRealtime + i
	}
	return firstSignal + slices.Index(spec.Signals(), name)
}

// SignalName returns the name of a signal without SIG; empty if it has none.
func SignalName(number int) string {
	realtime := spec.RealtimeSignals()
	standard := spec.Signals()
	standard = standard[:len(standard)-len(realtime)]
	if i := number - firstSignal; i >= 0 && i < len(standard) {
		return standard[i]
	}
	if i := number - firstRealtime; i >= 0 && i < len(realtime) {
		return realtime[i]
	}
	return ""
}
