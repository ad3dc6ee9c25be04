// Command statesdoc prints docs/states.md from the state machines, so that the document cannot tell anything else
// than the code does.
package main

//go:generate sh -c "go run . > ../../docs/states.md"

import (
	"fmt"
	"io"
	"os"
	"strings"

	"drover/internal/agent/lifecycle"
	"drover/internal/agent/uplink/linkstate"
	"drover/internal/server/task"
	"drover/internal/statemachine"
)

func main() {
	if err := write(os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "statesdoc:", err)
		os.Exit(1)
	}
}

func write(w io.Writer) error {
	var text strings.Builder
	text.WriteString(
		"# States\n\nMade by `make generate` from the code, by walking each machine over every reachable state and event.\n")
	text.WriteString("\n## A watched process (`internal/agent/lifecycle`)\n\n")
	text.WriteString(
		"The agent runs one of these for every process it knows. It decides between operations; while an operation holds\nthe process the state is `operating` and nothing else happens.\n\n")
	table(&text, lifecycle.Transitions())
	text.WriteString("\n## An agent and its server (`internal/agent/uplink/linkstate`)\n\n")
	text.WriteString(
		"The agent takes orders while it is `introduced` or `confirmed`. Every report introduces the agent, unless it is\n`confirmed`. An agent that has just started begins nothing that its disk could be wrong about, until the server has\naccepted it or a wait ends.\n\n")
	table(&text, linkstate.Transitions())
	text.WriteString("\n## An item of a task (`internal/server/task`)\n\n")
	text.WriteString(
		"The server runs one of these for every process of every agent that a call names. States only rise.\n\n")
	table(&text, task.Transitions())
	_, err := io.WriteString(w, text.String())
	return err
}

// table writes a diagram and the full table of transitions.
func table[S comparable](text *strings.Builder, rows []statemachine.Transition[S]) {
	text.WriteString("```mermaid\nstateDiagram-v2\n")
	drawn := map[statemachine.Transition[S]]bool{}
	id := func(state S) string { return strings.ReplaceAll(fmt.Sprint(state), "-", "_") }
	for _, r := range rows {
		short := r
		short.Note = ""
		if r.From == r.To || drawn[short] {
			continue
		}
		drawn[short] = true
		fmt.Fprintf(text, "    %s --> %s: %s\n", id(r.From), id(r.To), r.Event)
	}
	text.WriteString("```\n\n| from | event | to | what is done |\n|---|---|---|---|\n")
	for _, r := range rows {
		fmt.Fprintf(text, "| %v | %s | %v | %s |\n", r.From, r.Event, r.To, r.Note)
	}
}
