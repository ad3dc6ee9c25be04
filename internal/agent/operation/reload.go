package operation

import (
	"golang.org/x/sys/unix"

	"drover/internal/agent/specstore"
	"drover/internal/process"
)

// reload runs reload_cmd and checks that the process is alive afterwards, as a start does. It keeps the hosting flag;
// a hosted process continues with the spec of the order.
func (n *session) reload() (Result, error) {
	st, err := n.sendReload()
	if err != nil {
		return Result{}, err
	}
	seen, why, err := n.startCheck(st.DoneAt)
	if err != nil {
		return Result{}, err
	}
	if why.failed() {
		return Result{}, postCheckAfter(st.Result, "reload", n.name(), why.text, why.cause)
	}
	r := Result{
		Outcome: process.Outcome{
			Text:   successText(unknownStatus("reload_cmd", st.Result), n.missing(seen)),
			Hosted: n.subject.Hosted(),
		},
		Runtime: n.runtime,
	}
	if n.subject.Hosted() {
		rec := n.record()
		rec.Spec = *n.spec
		r.Change = specstore.Change{Put: rec}
	}
	return r, nil
}

// sendReload runs the reload command, or sends the reload signal of the spec to the main process.
func (n *session) sendReload() (*specstore.Step, error) {
	if name := n.spec.Commands.ReloadSignal; name != "" {
		seen := n.look()
		if !seen.Alive() {
			return nil, notRunning(string(process.Reload), n.name())
		}
		if problem := n.signal(*seen.ID, unix.SignalNum("SIG"+name)); problem != "" {
			return nil, process.Errorf(process.Failed, "%s", problem)
		}
		return &specstore.Step{DoneAt: n.Clock()}, nil
	}
	if n.spec.Commands.Reload == "" {
		return nil, emptyCommand("reload_cmd")
	}
	st, err := n.command("reload", n.spec.Commands.Reload)
	if err != nil {
		return nil, err
	}
	if !succeeded(st.Result) {
		n.look()
		return nil, commandFailed("reload_cmd", st.Result, "")
	}
	return st, nil
}
