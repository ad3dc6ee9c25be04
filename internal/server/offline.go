package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"drover/internal/durable"
	"drover/internal/fabric/broker"
	"drover/internal/pki"
	"drover/internal/server/keyring"
	"drover/internal/server/store/storeopen"
)

// Node is an external broker of the fabric.
type Node struct {
	broker.Node
	// Names are the host names and IP addresses by which it is reached, by agents and by the others.
	Names []string
	// Out is the directory for its files, which an operator then copies to its Dir. If it is empty, ConfigureNode only
	// writes the configuration.
	Out string
}

// ConfigureNode writes the configuration of a broker to out, with the keys below a server's directory. If n.Out is set,
// it also writes the broker's files: configuration, certificate, key, and the authority of the other brokers. It
// replaces existing files, so it can also renew a certificate.
func ConfigureNode(dir string, n Node, out io.Writer, log *slog.Logger) error {
	_, none := os.Stat(filepath.Join(dir, "pki"))
	keys, keeper, err := offlineKeys(dir, log)
	if err != nil {
		return err
	}
	if none != nil {
		log.Warn(
			"made the keys of a new fleet, because the data directory has none: is it the data directory of the server?", "dir", dir)
	}
	var text bytes.Buffer
	if err := broker.ConfigureNode(&text, externalKeys(dir, keys), n.Node); err != nil {
		return err
	}
	if n.Out == "" {
		_, err := out.Write(text.Bytes())
		return err
	}
	cert, key, err := keeper.IssueNode(n.Names)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(n.Out, 0o700); err != nil {
		return fmt.Errorf("cannot write files of a broker: %w", err)
	}
	for _, file := range []struct {
		name string
		data []byte
		mode os.FileMode
	}{
		{broker.KeyFile, key, 0o600},
		{broker.CertFile, cert, 0o644},
		{broker.CAFile, []byte(keeper.CA()), 0o644},
		{broker.ConfigFile, text.Bytes(), 0o644},
	} {
		if err := durable.Replace(filepath.Join(n.Out, file.name), file.data, file.mode); err != nil {
			return fmt.Errorf("cannot write files of a broker: %w", err)
		}
	}
	_, err = fmt.Fprintf(out,
		"%s has %s, %s, %s and %s: bring them to %s on the host of %s, and run nats-server -c %s there\n", n.Out,
		broker.ConfigFile, broker.CertFile, broker.KeyFile, broker.CAFile, n.Dir, n.Name,
		filepath.Join(n.Dir, broker.ConfigFile))
	return err
}

// offlineKeys opens the keys below a server's directory for a command, while the server may run.
func offlineKeys(dir string, log *slog.Logger) (*keyring.Ring, *pki.Keeper, error) {
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
	account, err := broker.AccountName(brokerDir(dir))
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
