package servers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"drover/client"
	"drover/internal/cli/term"
	"drover/internal/command"
	"drover/internal/config"
)

// readyTime bounds the whole question.
const readyTime = 8 * time.Second

func newServerReady() *cobra.Command {
	dataDir := config.DataDir()
	cmd := &cobra.Command{
		Use:  "ready",
		Args: term.Args,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), readyTime)
			defer cancel()
			if err := askReady(ctx, filepath.Join(dataDir, config.SocketName)); err != nil {
				return err
			}
			_, err := fmt.Fprintln(cmd.OutOrStdout(), "ready")
			return err
		},
	}
	cmd.Flags().StringVar(&dataDir, "data-dir", dataDir, "data directory of the server")
	return cmd
}

// askReady returns nil if the server that listens at a socket is ready.
func askReady(ctx context.Context, socket string) error {
	unreachable := func(err error) error {
		return &command.ExitError{
			Code: command.Unreachable, Err: fmt.Errorf("the server at %s does not answer: %w", socket, err),
		}
	}
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return client.DialSocket(ctx, socket)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://localhost/readyz", nil)
	if err != nil {
		return err
	}
	resp, err := (&http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}}).Do(req)
	if err != nil {
		return unreachable(errors.Unwrap(err))
	}
	defer resp.Body.Close()
	var answer struct {
		Reason string `json:"reason"`
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	if err != nil {
		return unreachable(err)
	}
	if resp.StatusCode == http.StatusOK {
		return nil
	}
	if err := json.Unmarshal(text, &answer); err != nil || answer.Reason == "" {
		return fmt.Errorf("the server is not ready: it answers with status %d", resp.StatusCode)
	}
	return fmt.Errorf("the server is not ready: %s", term.Printable(answer.Reason))
}
