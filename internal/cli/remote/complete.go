package remote

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/spf13/cobra"

	v1 "drover/api/v1"
	"drover/client"
)

// Live completion must not make the shell wait.
const (
	completeTime = 2 * time.Second
	CompleteMost = 500
)

// Completer returns the words that can follow, as cobra asks for them.
type Completer = func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective)

// Completing returns a completion that asks the server; without an answer it offers nothing.
func Completing(s *Session, ask func(ctx context.Context, c *client.Client, begun string) []string) Completer {
	return func(cmd *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
		c, err := s.connect(cmd)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := context.WithTimeout(context.Background(), completeTime)
		defer cancel()
		return ask(ctx, c, begun), cobra.ShellCompDirectiveNoFileComp
	}
}

// First completes the first argument.
func First(first Completer) Completer {
	return func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return first(cmd, args, begun)
	}
}

// Words returns the words of a list until the list ends or fails.
func Words[T any](list iter.Seq2[T, error], word func(T) string) []string {
	var all []string
	for item, err := range list {
		if err != nil {
			break
		}
		all = append(all, word(item))
	}
	return all
}

// HostIDs returns the ids of the hosts that begin so.
func HostIDs(ctx context.Context, c *client.Client, begun string) []string {
	return Words(c.Hosts(ctx, client.HostFilter{Hosts: []string{begun + "*"}, Limit: CompleteMost}), agentID)
}

func agentID(a v1.JoinedHost) string { return a.ID }

// Address returns CLOUD:IP of a host.
func Address(h v1.Host) string { return fmt.Sprintf("%d:%s", h.Cloud, h.IP) }

// CompleteFlag completes the value of a flag.
func CompleteFlag(cmd *cobra.Command, flag string, with Completer) {
	// It fails only for a missing flag, which the completion test would find.
	_ = cmd.RegisterFlagCompletionFunc(flag, with)
}
