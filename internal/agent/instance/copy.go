package instance

import (
	"time"

	"drover/internal/agent/procfs"
)

// Copy is a running process that may be the process of a spec, and that drover did not start: it has the account, the
// executable, and the command line or the working directory of the spec.
type Copy struct {
	ID procfs.Identity
	// Cmdline is the command line for people, without control characters. SameLine says that it is that of the spec.
	Cmdline  string
	SameLine bool
	Since    time.Time
}
