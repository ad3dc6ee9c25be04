// Command drover-agent is the agent alone: it supervises the processes of one host.
package main

import (
	"os"

	"drover/internal/agentcli"
	"drover/internal/command"
)

func main() { os.Exit(command.Main(agentcli.NewRoot(), os.Args[1:], nil)) }
