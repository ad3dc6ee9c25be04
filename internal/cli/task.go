package cli

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"drover/client"
)

// recentTasks is the number of tasks to search for the beginning of an id.
const recentTasks = 1000

// taskNamed returns the task with that id, or the only recent one whose id begins so, with or without what all ids
// begin with.
func taskNamed(ctx context.Context, c *client.Client, word string) (client.Operation, error) {
	task, err := c.Operation(ctx, word, 0)
	if refusal, ok := errors.AsType[*client.Error](err); !ok || refusal.Status != http.StatusNotFound || word == "" {
		return task, exitOf(err)
	}
	var found []string
	for t, listed := range c.Operations(ctx, client.OperationFilter{Limit: recentTasks}) {
		if listed != nil {
			return task, exitOf(listed)
		}
		_, own, _ := strings.Cut(t.ID, "GSETASK:S:")
		if strings.HasPrefix(t.ID, word) || strings.HasPrefix(own, word) {
			task, found = t, append(found, t.ID)
		}
	}
	switch {
	case len(found) == 0:
		return task, exitOf(err)
	case len(found) > 1:
		return task, usagef("%q matches %d tasks, such as %s and %s: give more of the id", word, len(found), found[0],
			found[1])
	}
	return task, nil
}
