package fleet

import (
	"context"
	"database/sql"
	"encoding/base64"
	"fmt"

	"drover/internal/server/store"
	"drover/internal/server/store/sqlstore/kit"
)

const selectPackages = `SELECT version, arch, signed, size, adder, created FROM packages `

func scanPackage(rows *sql.Rows) (p store.Package, err error) {
	var created int64
	err = rows.Scan(&p.Version, &p.Arch, &p.Signed, &p.Size, &p.Adder, &created)
	p.Created = kit.Moment(created)
	return p, err
}

// PutPackage stores a package without its pieces.
func (db *Fleet) PutPackage(ctx context.Context, p store.Package) error {
	err := db.Write(ctx, func(ctx context.Context, tx kit.Tx) error {
		known, err := kit.All(ctx, tx.Query, scanPackage, selectPackages)
		if err != nil {
			return err
		}
		size := p.Size
		for _, k := range known {
			size += k.Size
			switch {
			case k.Version != p.Version || k.Arch != p.Arch:
			case k.Signed == p.Signed:
				return nil
			default:
				return store.ErrExists
			}
		}
		if len(known) >= store.MostPackages || size > store.MostPackageBytes {
			return store.ErrPackagesFull
		}
		return kit.Inserted(tx.Affect(ctx,
			`INSERT INTO packages (version, arch, signed, size, adder, created) VALUES (?, ?, ?, ?, ?, ?)
			ON CONFLICT DO NOTHING`, p.Version, p.Arch, p.Signed, p.Size, p.Adder, kit.Nanos(p.Created)))
	})
	if err != nil {
		return fmt.Errorf("cannot store package %s for %s: %w", p.Version, p.Arch, err)
	}
	return nil
}

// PutPiece stores a piece of a package.
func (db *Fleet) PutPiece(ctx context.Context, of store.Package, piece int, data []byte) error {
	version, arch := of.Version, of.Arch
	err := db.Write(ctx, func(ctx context.Context, tx kit.Tx) error {
		present, err := kit.One(ctx, tx.Query, scanPackage,
			selectPackages+`WHERE version = ? AND arch = ?`+db.Dialect.Locked, version, arch)
		if err == nil && present.Signed != of.Signed {
			err = store.ErrNotFound
		}
		if err != nil {
			return err
		}
		return tx.Exec(ctx, `INSERT INTO package_pieces (version, arch, piece, data) VALUES (?, ?, ?, ?)
			ON CONFLICT (version, arch, piece) DO UPDATE SET data = excluded.data`, version, arch, piece,
			base64.StdEncoding.EncodeToString(data))
	})
	if err != nil {
		return fmt.Errorf("cannot store piece %d of package %s for %s: %w", piece, version, arch, err)
	}
	return nil
}

// ListPackages returns all packages.
func (db *Fleet) ListPackages(ctx context.Context) ([]store.Package, error) {
	list, err := kit.All(ctx, db.Query, scanPackage, selectPackages+`ORDER BY version, arch`)
	if err != nil {
		return nil, fmt.Errorf("cannot list packages: %w", err)
	}
	place := map[[2]string]int{}
	for i, p := range list {
		place[[2]string{p.Version, p.Arch}] = i
	}
	err = db.Query(ctx, func(rows *sql.Rows) error {
		var version, arch string
		var piece int
		err := rows.Scan(&version, &arch, &piece)
		if i, known := place[[2]string{version, arch}]; known {
			list[i].Pieces = append(list[i].Pieces, piece)
		}
		return err
	}, `SELECT version, arch, piece FROM package_pieces ORDER BY version, arch, piece`)
	if err != nil {
		return nil, fmt.Errorf("cannot list pieces of packages: %w", err)
	}
	return list, nil
}

// GetPackage returns a package.
func (db *Fleet) GetPackage(ctx context.Context, version, arch string) (store.Package, error) {
	p, err := kit.One(ctx, db.Query, scanPackage, selectPackages+`WHERE version = ? AND arch = ?`, version, arch)
	if err != nil {
		return p, fmt.Errorf("cannot read package %s for %s: %w", version, arch, err)
	}
	return p, nil
}

// GetPiece returns a piece.
func (db *Fleet) GetPiece(ctx context.Context, version, arch string, piece int) ([]byte, error) {
	text, err := kit.One(ctx, db.Query, kit.Column[string],
		`SELECT data FROM package_pieces WHERE version = ? AND arch = ? AND piece = ?`, version, arch, piece)
	if err != nil {
		return nil, fmt.Errorf("cannot read piece %d of package %s for %s: %w", piece, version, arch, err)
	}
	return base64.StdEncoding.DecodeString(text)
}

// RemovePackage deletes a package with its pieces.
func (db *Fleet) RemovePackage(ctx context.Context, version, arch string) error {
	err := db.Write(ctx, func(ctx context.Context, tx kit.Tx) error {
		err := kit.Affected(tx.Affect(ctx, `DELETE FROM packages WHERE version = ? AND arch = ?`, version, arch))
		if err != nil {
			return err
		}
		return tx.Exec(ctx, `DELETE FROM package_pieces WHERE version = ? AND arch = ?`, version, arch)
	})
	if err != nil {
		return fmt.Errorf("cannot remove package %s for %s: %w", version, arch, err)
	}
	return nil
}
