package servers

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"drover/internal/cli/term"
	"drover/internal/command"
	"drover/internal/config"
	"drover/internal/config/serverconfig"
	"drover/internal/process"
	"drover/internal/serve"
	"drover/internal/serverkeys"
)

func newServerKeys() *cobra.Command {
	return term.Noun("keys", newServerKeysExport(), newServerKeysImport(), newServerKeysAdopt())
}

// serverDir is the directory of a server's own files, below its data directory.
func serverDir(dataDir string) string { return filepath.Join(dataDir, "server") }

func newServerKeysExport() *cobra.Command {
	dataDir := config.DataDir()
	cmd := &cobra.Command{
		Use:  "export FILE",
		Args: term.Args,
		RunE: func(cmd *cobra.Command, args []string) error {
			n, err := exportKeys(serverDir(dataDir), args[0])
			if err != nil {
				return err
			}
			term.Say(cmd, "%s written to %s\n", process.Count(n, "key was", "keys were"), args[0])
			return nil
		},
	}
	cmd.Flags().StringVar(&dataDir, "data-dir", dataDir, "data directory of the server")
	return cmd
}

// exportKeys writes a new file. It leaves no file after an error.
func exportKeys(dir, path string) (n int, err error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return 0, fmt.Errorf("cannot write keys: %w", err)
	}
	defer func() {
		if err = errors.Join(err, f.Close()); err != nil {
			err = errors.Join(err, os.Remove(path))
		}
	}()
	if n, err = serverkeys.Export(dir, f); err != nil {
		return 0, err
	}
	return n, f.Sync()
}

func newServerKeysImport() *cobra.Command {
	dataDir := config.DataDir()
	cmd := &cobra.Command{
		Use:  "import FILE",
		Args: term.Args,
		RunE: func(cmd *cobra.Command, args []string) error {
			lock, err := config.Lock(cmd.Context(), dataDir)
			if err != nil {
				return err
			}
			defer lock.Close() //nolint:errcheck // nothing was written
			f, err := os.Open(args[0])
			if err != nil {
				return fmt.Errorf("cannot read keys: %w", err)
			}
			defer f.Close() //nolint:errcheck // opened only for reading
			n, err := serverkeys.Import(serverDir(dataDir), f)
			if err != nil {
				return err
			}
			term.Say(cmd, "%s written to %s; remove %s now\n", process.Count(n, "key was", "keys were"),
				serverDir(dataDir), args[0])
			return nil
		},
	}
	cmd.Flags().StringVar(&dataDir, "data-dir", dataDir, "data directory of the server")
	return cmd
}

func newServerKeysAdopt() *cobra.Command {
	dataDir := config.DataDir()
	var database string
	cmd := &cobra.Command{
		Use:  "adopt",
		Args: term.Args,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if serverconfig.HasPassword(database) {
				return term.Usagef("--database: %w", errPassword)
			}
			cfg := serverconfig.Default()
			if err := cfg.ReadEnvironment(); err != nil {
				return term.Usagef("%w", err)
			}
			database = cmp.Or(database, cfg.Database)
			if err := serverconfig.Database(database); err != nil {
				return term.Usagef("%w", err)
			}
			lock, err := config.Lock(cmd.Context(), dataDir)
			if err != nil {
				return err
			}
			defer lock.Close() //nolint:errcheck // nothing was written
			log, err := command.Log(cmd.ErrOrStderr(), "warn")
			if err != nil {
				return err
			}
			if err := serve.Adopt(cmd.Context(), serverDir(dataDir), database, log); err != nil {
				return err
			}
			term.Say(cmd, "the database belongs to the keys in %s now; every host has to join again\n",
				serverDir(dataDir))
			return nil
		},
	}
	cmd.Flags().StringVar(&dataDir, "data-dir", dataDir, "data directory of the server")
	cmd.Flags().StringVar(&database, "database", "",
		"URL of a PostgreSQL database, without a password, or path of a SQLite file")
	return cmd
}
