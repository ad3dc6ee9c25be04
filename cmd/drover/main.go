// Command drover is the server, the proxy and the command line of drover in one binary.
package main

import (
	"os"

	"drover/internal/cli"
)

func main() { os.Exit(cli.Main(os.Args[1:])) }
