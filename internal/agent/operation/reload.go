package operation

import (
	"drover/internal/agent/specstore"
	"drover/internal/process"
)

// reload runs reload_cmd and checks that the process is alive afterwards, as a start does. It keeps the hosting flag;
// a hosted process continues with the spec of the order.
func (n *session) reload() (Result, error) {
	if n.spec.Commands.Reload == "" {
		return Result{}, emptyCommand("reload_cmd")
	}
	st, err := n.command("reload", n.spec.Commands.Reload)
	if err != nil {
		return Result{}, err
	}
	if !succeeded(st.Result) {
		n.look()
		return Result{}, commandFailed("reload_cmd", st.Result, "")
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
