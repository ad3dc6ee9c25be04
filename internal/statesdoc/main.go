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
	"drover/internal/agent/uplink/standing"
	"drover/internal/server/task"
)

func main() {
	if err := write(os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "statesdoc:", err)
		os.Exit(1)
	}
}

// edge is a transition of one of the machines.
type edge struct{ from, event, to, note string }

func write(w io.Writer) error {
	var text strings.Builder
	text.WriteString(
		"# States\n\nMade by `make generate` from the code, by walking each machine over every reachable state and event.\n")
	text.WriteString("\n## A watched process (`internal/agent/lifecycle`)\n\n")
	text.WriteString(
		"The agent runs one of these for every process it knows. It decides between operations; while an operation holds\nthe process the state is `operating` and nothing else happens.\n\n")
	var process []edge
	for _, t := range lifecycle.Transitions() {
		process = append(process, edge{string(t.From), t.Event, string(t.To), t.Note})
	}
	table(&text, process)
	text.WriteString("\n## An agent and its server (`internal/agent/uplink/standing`)\n\n")
	text.WriteString(
		"The agent takes orders while it is `introduced` or `confirmed`. Every report introduces the agent, unless it is\n`confirmed`. An agent that has just started begins nothing that its disk could be wrong about, until the server has\naccepted it or a wait ends.\n\n")
	var link []edge
	for _, t := range standing.Transitions() {
		link = append(link, edge{string(t.From), t.Event, string(t.To), t.Note})
	}
	table(&text, link)
	text.WriteString("\n## An item of a task (`internal/server/task`)\n\n")
	text.WriteString(
		"The server runs one of these for every process of every agent that a call names. States only rise.\n\n")
	var item []edge
	for _, t := range task.Transitions() {
		item = append(item, edge{t.From.String(), t.Event, t.To.String(), t.Note})
	}
	table(&text, item)
	_, err := io.WriteString(w, text.String())
	return err
}

// table writes a diagram and the full table of transitions.
func table(text *strings.Builder, edges []edge) {
	text.WriteString("```mermaid\nstateDiagram-v2\n")
	drawn := map[edge]bool{}
	id := func(state string) string { return strings.ReplaceAll(state, "-", "_") }
	for _, e := range edges {
		short := edge{from: e.from, event: e.event, to: e.to}
		if e.from == e.to || drawn[short] {
			continue
		}
		drawn[short] = true
		fmt.Fprintf(text, "    %s --> %s: %s\n", id(e.from), id(e.to), e.event)
	}
	text.WriteString("```\n\n| from | event | to | what is done |\n|---|---|---|---|\n")
	for _, e := range edges {
		fmt.Fprintf(text, "| %s | %s | %s | %s |\n", e.from, e.event, e.to, e.note)
	}
}
