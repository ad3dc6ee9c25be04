package remote_test

import (
	"errors"
	"io"
	"testing"

	"github.com/spf13/cobra"

	v1 "drover/api/v1"
	"drover/internal/cli/remote"
	"drover/internal/command"
	"drover/internal/words"
)

// TestRefusalsNameCommandsOfTheSameServer: the commands in a refusal carry the flags of the server. Commands that reach
// no server, and texts of the command line, stay as they are.
func TestRefusalsNameCommandsOfTheSameServer(t *testing.T) {
	const running = "rollout ro-x7k2 is running: pause it with 'drover rollout pause ro-x7k2', or end it with " +
		"'drover rollout abort ro-x7k2'"
	const again = "rollout ro-x7k2 is running: pause it with 'drover rollout pause ro-x7k2 --data-dir /var/d', " +
		"or end it with 'drover rollout abort ro-x7k2 --data-dir /var/d'"
	const elsewhere = "bring it there ('drover keys export' here)"
	own := errors.New("run 'drover rollout abort ro-1'")
	for name, c := range map[string]struct {
		err  error
		want string
	}{
		"a refusal": {&v1.Problem{Status: 409, Detail: running}, again},
		"beside another": {
			errors.Join(own, remote.ExitOf(&v1.Problem{Status: 409, Detail: running})), own.Error() + "\n" + again,
		},
		"no server":       {&v1.Problem{Detail: elsewhere}, elsewhere},
		"no such command": {&v1.Problem{Detail: "try 'drover dance'"}, "try 'drover dance'"},
		"its own text":    {own, own.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			err := refusedBy(t, c.err)
			if err.Error() != c.want {
				t.Errorf("%q, expected %q", err, c.want)
			}
			if _, ok := errors.AsType[*v1.Problem](c.err); ok {
				if _, still := errors.AsType[*v1.Problem](err); !still {
					t.Error("the refusal is lost")
				}
			}
			_, code := errors.AsType[*command.ExitError](c.err)
			if _, still := errors.AsType[*command.ExitError](err); still != code {
				t.Error("the exit code is lost")
			}
		})
	}
	const chinese = "分批发布 ro-x7k2 正在进行：请用 'drover rollout pause ro-x7k2 --data-dir /var/d' 暂停，" +
		"或用 'drover rollout abort ro-x7k2 --data-dir /var/d' 终止"
	if got := words.Message(again, words.Chinese); got != chinese {
		t.Errorf("in Chinese %q, expected %q", got, chinese)
	}
}

// refusedBy returns the error of a command with --data-dir that ends with an error.
func refusedBy(t *testing.T, err error) error {
	t.Helper()
	root := &cobra.Command{Use: "drover", SilenceErrors: true, SilenceUsage: true}
	verb := func(use string, run func(*cobra.Command, []string) error) *cobra.Command {
		var s remote.Session
		cmd := &cobra.Command{Use: use, RunE: run}
		s.Flags(cmd)
		return cmd
	}
	nothing := func(*cobra.Command, []string) error { return nil }
	rollout, keys := &cobra.Command{Use: "rollout"}, &cobra.Command{Use: "keys"}
	rollout.AddCommand(verb("abort ID", nothing), verb("pause ID", nothing))
	keys.AddCommand(&cobra.Command{Use: "export", RunE: nothing})
	root.AddCommand(rollout, keys, verb("apply", func(*cobra.Command, []string) error { return err }))
	root.SetArgs([]string{"apply", "--data-dir", "/var/d"})
	root.SetOut(io.Discard)
	return root.Execute()
}
