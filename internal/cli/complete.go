package cli

import (
	"context"
	"iter"
	"time"

	"github.com/spf13/cobra"

	"drover/client"
)

// Live completion must not make the shell wait.
const (
	completeTime = 2 * time.Second
	completeMost = 500
)

type completer = func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective)

// completing returns a completion that asks the server; without an answer it offers nothing.
func completing(s *session, ask func(ctx context.Context, c *client.Client, begun string) []string) completer {
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

// only completes the first argument.
func only(first completer) completer {
	return func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return first(cmd, args, begun)
	}
}

// words returns what a list holds until it ends or fails.
func words[T any](list iter.Seq2[T, error], word func(T) string) []string {
	var all []string
	for item, err := range list {
		if err != nil {
			break
		}
		all = append(all, word(item))
	}
	return all
}

func completeProcesses(s *session) completer {
	return completing(s, func(ctx context.Context, c *client.Client, begun string) []string {
		f := client.ProcessFilter{Limit: completeMost}
		if namespace, name, err := splitID(begun); err == nil {
			f.Namespace, f.Name = namespace, name+"*"
		} else if namespace, found := cutSlash(begun); found {
			f.Namespace = namespace
		} else {
			f.Namespace = begun + "*"
		}
		found, err := client.Collect(c.Processes(ctx, f))
		if err != nil {
			return nil
		}
		return names(found, completeMost)
	})
}

// cutSlash returns the namespace of "namespace/", where no name has begun.
func cutSlash(begun string) (string, bool) {
	if n := len(begun); n > 1 && begun[n-1] == '/' {
		return begun[:n-1], true
	}
	return "", false
}

func completeHosts(cmd *cobra.Command, s *session) {
	completeFlag(cmd, "hosts", completing(s, hostIDs))
}

// completeFlag completes the value of a flag.
func completeFlag(cmd *cobra.Command, flag string, with completer) {
	// It fails only for a flag that is not there, which the completion test would show.
	_ = cmd.RegisterFlagCompletionFunc(flag, with)
}

func hostIDs(ctx context.Context, c *client.Client, begun string) []string {
	return words(c.Agents(ctx, client.AgentFilter{Hosts: []string{begun + "*"}, Limit: completeMost}),
		func(a client.Agent) string { return a.ID })
}

func completeTasks(s *session) completer {
	return only(completing(s, func(ctx context.Context, c *client.Client, _ string) []string {
		return words(c.Operations(ctx, client.OperationFilter{Limit: 50}), func(o client.Operation) string {
			return o.ID + "\t" + o.Op + " " + printable(o.Subject)
		})
	}))
}

func completeApps(s *session) completer {
	return only(completing(s, func(ctx context.Context, c *client.Client, _ string) []string {
		return words(c.Apps(ctx), func(a client.App) string { return a.Code })
	}))
}

func completeUsers(s *session) completer {
	return only(completing(s, func(ctx context.Context, c *client.Client, _ string) []string {
		return words(c.Users(ctx), func(u client.User) string { return u.Name })
	}))
}

func completeWebhooks(s *session) completer {
	return only(completing(s, func(ctx context.Context, c *client.Client, _ string) []string {
		list, err := c.Webhooks(ctx)
		if err != nil {
			return nil
		}
		var all []string
		for _, w := range list {
			all = append(all, w.Name)
		}
		return all
	}))
}
