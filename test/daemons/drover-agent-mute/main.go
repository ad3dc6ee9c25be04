// Command drover-agent-mute is no agent, whatever its name and arguments say: it does nothing until somebody ends it. A
// copy with "end" as its last bytes ends at once.
package main

import (
	"bytes"
	"os"
)

func main() {
	program, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		panic(err)
	}
	if bytes.HasSuffix(program, []byte("end")) {
		return
	}
	never, end, err := os.Pipe()
	if err != nil {
		panic(err)
	}
	_, _ = never.Read(make([]byte, 1)) // nobody writes
	_ = end.Close()
}
