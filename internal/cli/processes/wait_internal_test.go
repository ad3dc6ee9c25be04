package processes

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spf13/cobra"

	"drover/client"
)

// TestProgressInAPipe: without a terminal, a wait tells one line at once and one every ten seconds, with a change or not.
func TestProgressInAPipe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said strings.Builder
		cmd := &cobra.Command{}
		cmd.SetErr(&said)
		line := progress{cmd: cmd}
		o := client.Operation{Op: "restart", Counts: client.Counts{Targets: 30, Pending: 30}}
		for second := range 35 {
			if second < 12 {
				o.Counts.OK, o.Counts.Pending = second, 30-second
			}
			line.show(o)
			time.Sleep(time.Second)
		}
		line.clear()
		want := "restart: 0/30 ok, 0 failed, 30 running\nrestart: 10/30 ok, 0 failed, 20 running\n" +
			strings.Repeat("restart: 11/30 ok, 0 failed, 19 running\n", 2)
		if said.String() != want {
			t.Errorf("it told %q, want %q", said.String(), want)
		}
	})
}
