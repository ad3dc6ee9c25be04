package supervisor

import "time"

// alarm is the one timer of a machine.
type alarm struct {
	timer *time.Timer // nil when none is armed
	count int         // of those that were armed or disarmed
}

// arm has ring called with the number of the alarm; any other is disarmed.
func (a *alarm) arm(after time.Duration, ring func(number int)) {
	a.disarm()
	number := a.count
	a.timer = time.AfterFunc(after, func() { ring(number) })
}

func (a *alarm) disarm() {
	a.count++ // one that fires at this moment comes too late
	if a.timer != nil {
		a.timer.Stop()
		a.timer = nil
	}
}

// stands reports whether an alarm that has rung is the one that was armed last.
func (a *alarm) stands(number int) bool { return number == a.count }
