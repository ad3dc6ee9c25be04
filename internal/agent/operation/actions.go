package operation

import "drover/internal/process"

// actions maps each operation to its code. process.Ops has the other facts about an operation.
//
//nolint:gochecknoglobals // a table that nothing changes
var actions = map[process.Op]func(*session) (Result, error){
	process.Query:      (*session).query,
	process.Start:      (*session).start,
	process.Stop:       (*session).stop,
	process.Restart:    (*session).restart,
	process.Reload:     (*session).reload,
	process.Kill:       (*session).kill,
	process.Signal:     (*session).sendSignal,
	process.Preflight:  (*session).askPreflight,
	process.Host:       (*session).host,
	process.Unhost:     (*session).unhost,
	process.Retry:      (*session).retry,
	process.Register:   (*session).register,
	process.Update:     (*session).update,
	process.Unregister: (*session).unregister,
	process.SetGroups:  (*session).setGroups,
}
