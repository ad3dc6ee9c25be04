package call

import (
	"time"
)

// OptionalTime returns a time; nil for the zero time.
func OptionalTime(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// Assign sets a field to a value, unless the value is missing.
func Assign[T any](field *T, value *T) {
	if value != nil {
		*field = *value
	}
}

// LastMoment is the last time that JSON can represent, in Unix seconds: the end of the year 9999. Hosts may report
// later times.
const LastMoment = 253402300799

// MilliTime returns Unix milliseconds as a time; nil if the value is not positive or is after LastMoment.
func MilliTime(milliseconds int64) *time.Time {
	if milliseconds <= 0 || milliseconds > LastMoment*1000 {
		return nil
	}
	t := time.UnixMilli(milliseconds).UTC()
	return &t
}

// UnixTime returns Unix seconds as a time; nil if the value is not positive or is after LastMoment.
func UnixTime(seconds int64) *time.Time {
	if seconds <= 0 || seconds > LastMoment {
		return nil
	}
	t := time.Unix(seconds, 0).UTC()
	return &t
}
