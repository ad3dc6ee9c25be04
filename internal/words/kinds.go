package words

import (
	"slices"
	"strings"
)

// Kind returns the word of a kind of event; the id itself if it has none.
func Kind(id string) Text { return Text{"kind", id} }

// Actor returns the word of who caused an event that nobody requested; the id itself if it has none.
func Actor(id string) Text { return Text{"actor", id} }

// Action returns the word of an operation or of another action; the id itself if it has none.
func Action(id string) Text {
	operation := Text{"operation", id}
	if _, known := operation.find(English); known {
		return operation
	}
	return Text{"action", id}
}

// dryRun ends the id of an action that only says what would be done.
const dryRun = ".dry-run"

// AskedFor returns the ids of what a call asked for, joined with commas: its operations, or its endpoint if there are
// none. An apply and an undo are more than the operations that carry them out.
func AskedFor(action string, ops []string) string {
	base, dry := strings.CutSuffix(action, dryRun)
	if len(ops) == 0 || base == "namespaces.apply" || base == "rollouts.undo" {
		return action
	}
	slices.Sort(ops)
	text := strings.Join(ops, ", ")
	if dry {
		text = strings.ReplaceAll(text, ", ", dryRun+", ") + dryRun
	}
	return text
}

// Did returns the words of actions, of which several are joined with commas.
func Did(ids string, l Lang) string {
	list := strings.Split(ids, ", ")
	for i, id := range list {
		of, dry := strings.CutSuffix(id, dryRun)
		if list[i] = Action(of).In(l); dry {
			list[i] = phrase.DryRun.In(l, "action", list[i])
		}
	}
	return strings.Join(list, phrase.Comma.In(l))
}
