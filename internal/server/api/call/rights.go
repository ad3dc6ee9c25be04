package call

import (
	"drover/internal/process"
	"drover/internal/server/access"
	"drover/internal/server/store"
)

// Supported returns the operations that a caller can submit. Query is not one, because the list of processes answers
// it.
func Supported() (list []string) {
	for _, row := range process.Ops() {
		if row.OwnAPI {
			list = append(list, string(row.Op))
		}
	}
	return list
}

// App returns the app whose tasks the caller may see: its own, or every app (empty) for an administrator.
func (c *Call) App() string {
	if c.Principal.Admin {
		return ""
	}
	return c.Principal.App
}

// Sight is what the caller sees of tasks and rollouts by their namespaces: an app its own, and a person also those of
// others whose processes the person may query. seer has the rest of the answer.
func (c *Call) Sight() store.Sight {
	s := store.Sight{App: c.App()}
	if s.App != "" && c.Principal.Proven {
		if s.Within = c.Principal.Namespaces(access.OperationOf(process.Query)); s.Within == nil {
			s.Within = []string{access.All}
		}
	}
	return s
}

// MayRead returns the hosts of whose processes in a namespace the caller may read something.
func MayRead(c *Call, namespace string) (access.Reach, error) {
	query := access.OperationOf(process.Query)
	reach := c.Principal.On(query, namespace)
	if reach.Nowhere() {
		return reach, Forbidden(access.Missing{Operation: query, Subject: namespace})
	}
	return reach, nil
}
