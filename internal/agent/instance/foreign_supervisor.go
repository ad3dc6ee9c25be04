package instance

import "strconv"

// ForeignSupervisor is another supervisor, which may start a process again that drover has taken over. drover
// relaunches the process only after that supervisor has gone.
type ForeignSupervisor struct {
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

// Text says in words for a person what the supervisor means. ended says that drover waits for the next instance.
func (s *ForeignSupervisor) Text(ended bool) string {
	if ended && s.Parent != nil {
		return s.text(" has kept the process, which has ended: drover relaunches it within 30 s unless that program does")
	}
	return s.text(" still keeps the process: drover watches the process, and does not relaunch or end it by itself")
}

// Refusal says in words for a person why drover does not end the process.
func (s *ForeignSupervisor) Refusal() string {
	how := "make it let go"
	if s.Parent == nil {
		how = "write the drop-in that `drover import --adopt` printed, then `systemctl stop`"
	} else if s.Name == "supervisord" {
		how = "remove its program from the configuration, then `supervisorctl update`"
	}
	return s.text(" still keeps the process, and may start it again. First ") + how
}

// text is a sentence about the supervisor.
func (s *ForeignSupervisor) text(rest string) string {
	if s.Parent == nil {
		return "unit " + s.Name + " of systemd" + rest
	}
	return s.Name + " (pid " + strconv.Itoa(s.Parent.PID) + ")" + rest
}

// Same reports whether two supervisors are one, and keep the same process as far as they say.
func (s ForeignSupervisor) Same(other ForeignSupervisor) bool {
	return s.Name == other.Name && (s.Parent == nil) == (other.Parent == nil) &&
		(s.Program == other.Program || s.Program == "" || other.Program == "") &&
		(s.Parent == nil || *s.Parent == *other.Parent)
}
