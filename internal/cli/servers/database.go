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
	return term.Noun("database", "Copy the database of a server",
		"Copy the database of a server, as a backup or to move from SQLite to PostgreSQL.",
		newDatabaseBackup(), newDatabaseCopy())
}

func newDatabaseBackup() *cobra.Command {
	dataDir := config.DataDir()
	var from string
	cmd := &cobra.Command{
		Use:   "backup FILE",
		Short: "Back up a SQLite database while the server runs",
		Long: `Write a consistent copy of a SQLite database to a new FILE. The server may keep
running. To restore the copy, stop the server and replace the database with the copy. Remove the
files beside the database that end with -wal and -shm.

The copy holds all records, and secrets as hashes. It does not hold the server's keys: back up
server/ of the data directory too. It does not hold the programs of 'drover packages' either: add
them again after a restore. For a PostgreSQL database use pg_dump.`,
		Example: `  drover database backup /srv/backup/drover-$(date +%F).db`,
		Args:    term.Args,
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
		Use:   "copy --from sqlite:PATH --to postgres://…",
		Short: "Copy a SQLite database into an empty PostgreSQL database",
		Long: `Copy all rows of a SQLite database into an empty PostgreSQL database, to continue
with PostgreSQL. Stop the server first.

The copy is one transaction: if it fails, the PostgreSQL database stays empty. drover compares the
row counts of each table on both sides. In the SQLite file, drover updates only the schema. drover
rejects a PostgreSQL database that is not empty.

Do not put a password into --to, because every user of the machine can read it. Without --to drover
reads the URL from DROVER_DATABASE. drover reads a password from PGPASSWORD or PGPASSFILE.`,
		Example: `  drover database copy --from sqlite:/var/lib/drover/server/drover.db --to postgres://drover@db.example.com/drover`,
		Args:    command.NoArgs,
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
