package instance

import (
	"strconv"
	"time"
)

// Copy is a running process that may be the process of a spec, and that no drover keeps: it has the account, the
// executable, and the command line or the working directory of the spec.
type Copy struct {
	ID Identity
	// Run is the run of a drover that it was born in; empty if it was born in none.
	Run string
	// Cmdline is the command line for people, without control characters. SameLine says that it is that of the spec.
	Cmdline  string
	SameLine bool
	Since    time.Time
}

// Keeper is another supervisor that may start a process again that drover has taken over. Drover relaunches the process
// only after the keeper has gone.
type Keeper struct {
	// Name is that of the program, or of the unit of systemd.
	Name string `json:"name"`
	// Parent is the program; nil for a unit.
	Parent *Identity `json:"parent,omitempty"`
	// Main says that the process is the main process of the unit. Program is its name in the program, as
	// GROUP:PROCESS; empty if the program does not say.
	Main    bool   `json:"main,omitempty"`
	Program string `json:"program,omitempty"`
	// Since is when drover has taken the process over, in Unix milliseconds.
	Since int64 `json:"since,omitempty"`
}

// Text says in words for an operator what the keeper means. ended says that drover waits for the next instance.
func (k *Keeper) Text(ended bool) string {
	if ended && k.Parent != nil {
		return k.text(" has kept the process, which has ended: drover relaunches it within 30 s unless that program does")
	}
	return k.text(" still keeps the process: drover watches the process, and does not relaunch or end it by itself")
}

// Refusal says in words for an operator why drover does not end the process.
func (k *Keeper) Refusal() string {
	how := "make it let go"
	if k.Parent == nil {
		how = "write the drop-in that `drover import --adopt` printed, then `systemctl stop`"
	} else if k.Name == "supervisord" {
		how = "remove its program from the configuration, then `supervisorctl update`"
	}
	return k.text(" still keeps the process, and may start it again. First ") + how
}

// text is a sentence about the keeper.
func (k *Keeper) text(rest string) string {
	if k.Parent == nil {
		return "unit " + k.Name + " of systemd" + rest
	}
	return k.Name + " (pid " + strconv.Itoa(k.Parent.PID) + ")" + rest
}

// Same reports whether two keepers are one, and keep the same process as far as they say.
func (k Keeper) Same(other Keeper) bool {
	return k.Name == other.Name && (k.Parent == nil) == (other.Parent == nil) &&
		(k.Program == other.Program || k.Program == "" || other.Program == "") &&
		(k.Parent == nil || *k.Parent == *other.Parent)
}
