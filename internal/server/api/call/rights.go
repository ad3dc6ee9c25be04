package call

import (
	"drover/internal/process"
	"drover/internal/server/access"
	"drover/internal/server/store"
)

// Supported returns the operations that a caller can submit. A query is missing, because the list of processes answers
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

// Sight returns the filter of tasks and rollouts by app and namespace. An app sees its own tasks. A person also sees
// the tasks of others in namespaces where the person may query processes; package operations checks the hosts (Seer).
func (c *Call) Sight() store.Sight {
	s := store.Sight{App: c.App()}
	if s.App != "" && c.Principal.Proven {
		if s.Within = c.Principal.Namespaces(access.OperationOf(process.Query)); s.Within == nil {
			s.Within = []string{access.All}
		}
	}
	return s
}

// MayRead returns the hosts on which the caller may query processes of a namespace. It fails if there are none.
func MayRead(c *Call, namespace string) (access.Reach, error) {
	query := access.OperationOf(process.Query)
	reach := c.Principal.On(query, namespace)
	if reach.Nowhere() {
		return reach, Forbidden(access.Missing{Operation: query, Subject: namespace})
	}
	return reach, nil
}
