// Command drover is the server, the proxy and the command line of drover in one binary.
package main

import (
	"os"

	"drover/internal/cli"
	"drover/internal/command"
)

func main() { os.Exit(command.Main(cli.NewRoot(), os.Args[1:])) }
