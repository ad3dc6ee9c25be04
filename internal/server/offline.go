package server

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"drover/internal/pki"
	"drover/internal/server/brokers"
	"drover/internal/server/keyring"
	"drover/internal/server/store/storeopen"
)

// Node is an external broker of the fabric.
type Node = brokers.Node

// ConfigureNode writes the configuration of an external broker to out, and its files if n.Out is set, with the keys
// below a server's directory. It replaces existing files, so it can also renew a certificate.
func ConfigureNode(dir string, n Node, out io.Writer, log *slog.Logger) error {
	_, none := os.Stat(filepath.Join(dir, "pki"))
	keys, authority, err := offlineKeys(dir, log)
	if err != nil {
		return err
	}
	if none != nil {
		log.Warn(
			"made the keys of a new fleet, because the data directory has none: is it the data directory of the server?", "dir", dir)
	}
	return brokers.ConfigureNode(dir, keys, authority, n, out)
}

// offlineKeys opens the keys below a server's directory for a command, while the server may run.
func offlineKeys(dir string, log *slog.Logger) (*keyring.Ring, *pki.Manager, error) {
	keeper, err := pki.Open(pki.Config{Dir: filepath.Join(dir, "pki"), Now: time.Now, Log: log})
	if err != nil {
		return nil, nil, err
	}
	keys, err := keyring.Open(keyring.Config{Dir: dir, Authorities: keeper, Now: time.Now, Log: log})
	return keys, keeper, err
}

// Adopt assigns a database to the keys below a server's directory, and creates missing keys. Use it after the loss of
// the keys that the database belonged to. The hosts trust the lost keys, so each host has to join again.
func Adopt(ctx context.Context, dir, database string, log *slog.Logger) error {
	account, err := brokers.AccountName(dir)
	if err != nil {
		return err
	}
	keys, _, err := offlineKeys(dir, log)
	if err != nil {
		return err
	}
	db, err := storeopen.Open(ctx, database, nil, log)
	if err != nil {
		return err
	}
	// Adopt writes the account last. Until then the database rejects these keys, so Adopt can be repeated.
	err = keys.Impose(ctx, db)
	if err == nil {
		err = db.SetFact(ctx, factAccount, account)
	}
	return errors.Join(err, db.Close())
}
