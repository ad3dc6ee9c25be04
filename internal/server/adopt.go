package server

import (
	"context"
	"errors"
	"log/slog"

	"drover/internal/fabric/broker"
	"drover/internal/server/store/storeopen"
)

// Adopt makes a database that of the keys below a server's directory, which are made where there are none. It is for
// whoever has lost the keys that the database belonged to: its hosts trust those, so each has to join again.
func Adopt(ctx context.Context, dir, database string, log *slog.Logger) error {
	account, err := broker.AccountKey(brokerDir(dir))
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
	// The account comes last: until then the database refuses these keys, and it can be done again.
	err = keys.Impose(ctx, db)
	if err == nil {
		err = db.SetFact(ctx, factAccount, account)
	}
	return errors.Join(err, db.Close())
}
