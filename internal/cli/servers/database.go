package servers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"drover/internal/cli/term"
	"drover/internal/command"
	"drover/internal/config"
	"drover/internal/config/serverconfig"
	"drover/internal/server/store/storeopen"
)

// NewDatabase returns 'drover database'.
func NewDatabase() *cobra.Command {
	return term.Noun("database", newDatabaseBackup(), newDatabaseCopy())
}

func newDatabaseBackup() *cobra.Command {
	dataDir := config.DataDir()
	var from string
	cmd := &cobra.Command{
		Use:  "backup FILE",
		Args: term.Args,
		RunE: func(cmd *cobra.Command, args []string) error {
			if from == "" {
				from = filepath.Join(dataDir, "server", "drover.db")
			}
			if err := storeopen.Backup(cmd.Context(), strings.TrimPrefix(from, sqlitePrefix), args[0]); err != nil {
				return err
			}
			info, err := os.Stat(args[0])
			if err != nil {
				return err
			}
			term.Say(cmd, "wrote %s: %d bytes\n", args[0], info.Size())
			return nil
		},
	}
	cmd.Flags().StringVar(&dataDir, "data-dir", dataDir, "data directory of the server")
	cmd.Flags().StringVar(&from, "from", "", "path of the database (default server/drover.db in the data directory)")
	return cmd
}

// sqlitePrefix is an optional prefix of the path of a SQLite file.
const sqlitePrefix = "sqlite:"

func newDatabaseCopy() *cobra.Command {
	var from, to string
	cmd := &cobra.Command{
		Use:  "copy --from sqlite:PATH --to postgres://…",
		Args: command.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			path, ok := strings.CutPrefix(from, sqlitePrefix)
			if !ok || path == "" {
				return term.Usagef("--from: expected %sPATH", sqlitePrefix)
			}
			if cmd.Flags().Changed("to") && serverconfig.HasPassword(to) {
				return term.Usagef("--to: %w", errPassword)
			}
			if to == "" {
				cfg := serverconfig.Default()
				if err := cfg.ReadEnvironment(); err != nil {
					return term.Usagef("%w", err)
				}
				to = cfg.Database
			}
			if err := serverconfig.Database(to); err != nil || !storeopen.Shareable(to) {
				return term.Usagef("--to: %w",
					errors.Join(err, errors.New("expected the URL of a PostgreSQL database")))
			}
			unlock, err := lockServerOf(cmd.Context(), path)
			if err != nil {
				return err
			}
			defer unlock()
			tables, err := storeopen.Copy(cmd.Context(), path, to, slog.New(slog.DiscardHandler))
			if err != nil {
				return err
			}
			rows := int64(0)
			for _, t := range tables {
				if _, err := fmt.Fprintf(cmd.OutOrStdout(), "%-15s %d\n", t.Table, t.Rows); err != nil {
					return err
				}
				rows += t.Rows
			}
			term.Say(cmd, "copied %d rows to %s; start the server with --database\n", rows, storeopen.Shown(to))
			return nil
		},
	}
	cmd.Flags().StringVar(&from, "from", "", "the SQLite database, as sqlite:PATH")
	cmd.Flags().StringVar(&to, "to", "", "URL of the PostgreSQL database (default: that of DROVER_DATABASE)")
	_ = cmd.MarkFlagRequired("from") // the flag exists
	return cmd
}

var errPassword = errors.New(
	"every user of this machine can read a password on the command line: put the password into the file of --config, DROVER_DATABASE or PGPASSFILE")

// lockServerOf prevents the start of the server whose database is at its usual place below a data directory. It fails
// while that server runs.
func lockServerOf(ctx context.Context, path string) (unlock func(), err error) {
	dir, err := filepath.Abs(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(path); err != nil || filepath.Base(dir) != "server" {
		return func() {}, nil //nolint:nilerr // the read reports a missing file
	}
	lock, err := config.Lock(ctx, filepath.Dir(dir))
	if err != nil {
		return nil, fmt.Errorf("cannot copy the database while the server runs: %w", err)
	}
	return func() { _ = lock.Close() }, nil // nothing was written
}
