package sqlstore

import (
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"
)

// Migration brings a schema from the previous version to its own version.
type Migration struct {
	Version int
	Name    string
	Script  string
}

// ReadMigrations returns the migrations in a directory, whose names are <version>_<what>.sql, in their order.
func ReadMigrations(files fs.FS, dir string) ([]Migration, error) {
	entries, err := fs.ReadDir(files, dir) // sorted
	if err != nil {
		return nil, fmt.Errorf("cannot read migrations: %w", err)
	}
	var all []Migration
	for _, e := range entries {
		number, _, _ := strings.Cut(e.Name(), "_")
		version, err := strconv.Atoi(number)
		if err != nil {
			return nil, fmt.Errorf("migration %q has no number: %w", e.Name(), err)
		}
		script, err := fs.ReadFile(files, path.Join(dir, e.Name()))
		if err != nil {
			return nil, fmt.Errorf("cannot read migration: %w", err)
		}
		all = append(all, Migration{Version: version, Name: e.Name(), Script: string(script)})
	}
	return all, nil
}

// Missing returns the migrations that a schema of the given version lacks. It fails if the version is newer than all of
// them.
func Missing(all []Migration, have int) ([]Migration, error) {
	for i, m := range all {
		if m.Version > have {
			return all[i:], nil
		}
	}
	if newest := all[len(all)-1].Version; have > newest {
		return nil, fmt.Errorf("its schema is version %d, but this build knows versions up to %d: run a newer drover",
			have, newest)
	}
	return nil, nil
}
