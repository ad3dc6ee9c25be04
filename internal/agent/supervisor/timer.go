package supervisor

import "time"

// machineTimer is the one timer of a machine.
type machineTimer struct {
	timer *time.Timer // nil when none is armed
	count int         // of those that were armed or disarmed
}

// arm has ring called with the number of the alarm; any other is disarmed.
func (t *machineTimer) arm(after time.Duration, ring func(number int)) {
	t.disarm()
	number := t.count
	t.timer = time.AfterFunc(after, func() { ring(number) })
}

func (t *machineTimer) disarm() {
	t.count++ // one that fires at this moment comes too late
	if t.timer != nil {
		t.timer.Stop()
		t.timer = nil
	}
}

// isCurrent reports whether an alarm that has rung is the one that was armed last.
func (t *machineTimer) isCurrent(number int) bool { return number == t.count }
