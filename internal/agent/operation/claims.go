package operation

import (
	"drover/internal/agent/instance"
	"drover/internal/process"
)

// Claims keep several drovers of one host from managing the same process. A claim is any text. It is held until it is
// dropped, or this program ends.
type Claims interface {
	// Take holds a claim, and returns 0, or the pid of the other drover that holds it.
	Take(claim string) (rival int)
	// Rival returns the pid of another drover that holds the claim, 0 where none does.
	Rival(claim string) int
	Drop(claim string)
}

// rivalry refuses what another drover of the host would undo.
func (o *Operator) rivalry(claim string) error {
	if o.Claims == nil {
		return nil
	}
	rival := o.Claims.Rival(claim)
	if rival == 0 {
		return nil
	}
	return process.Errorf(process.Failed, "nothing was done: %s", instance.RivalText(rival)).Because(process.CauseRival)
}
