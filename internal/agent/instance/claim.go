package instance

import (
	"cmp"
	"fmt"

	"drover/internal/process"
)

// ClaimOfPlace is the claim on the process that a spec describes. Copies are equal but for their numbers.
func ClaimOfPlace(id process.ID, s *process.Spec) string {
	if _, number := process.CopyOf(s, id); number > 0 {
		return fmt.Sprintf("command %q %q %d", s.Dir(), s.Run, number)
	}
	if s.Foreground() {
		return fmt.Sprintf("command %q %q", s.Dir(), s.Run)
	}
	return fmt.Sprintf("place %q %q", cmp.Or(s.PIDFile, s.Dir()), s.ProcessName)
}

// ClaimOfInstance is the claim on one instance, in whatever way it was found.
func ClaimOfInstance(id Identity) string { return fmt.Sprintf("instance %+v", id) }

// ClaimOfDrover is the claim that the drover with this pid holds while it lives.
func ClaimOfDrover(pid int) string { return fmt.Sprintf("drover %d", pid) }

// RivalText tells that another drover, with that pid, manages the process.
func RivalText(rival int) string {
	return fmt.Sprintf("another drover on this host (pid %d) manages the process", rival)
}
