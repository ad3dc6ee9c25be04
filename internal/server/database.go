package server

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"drover/internal/server/brokers"
	"drover/internal/server/dbclock"
	"drover/internal/server/pairs"
	"drover/internal/server/store"
	"drover/internal/wire"
)

// The facts about the fleet that its database holds.
const (
	factID      = "id"      // of the database, random
	factAccount = "account" // name of the fabric's account, which names the fleet
	factCursors = "cursors" // secret that seals the cursors of pages, random
)

// openClock opens the common clock of the servers.
func (s *Server) openClock(ctx context.Context) error {
	own := time.Now
	if s.cfg.Faults != nil {
		own = s.cfg.Faults.Wall
	}
	if !s.store.Shared() {
		s.clock = dbclock.Alone(own)
		return nil
	}
	clock, err := dbclock.New(ctx, dbclock.Config{Ask: s.store.Clock, Own: own, Log: s.cfg.Log})
	if err != nil {
		return err
	}
	clock.OnStep(func(by time.Duration) { s.directory.Shift(by) })
	s.clock = clock
	return nil
}

// identify learns the ids of the fleet and of the database. It rejects a database that belongs to other keys than this
// server's.
func (s *Server) identify(ctx context.Context) error {
	account, err := brokers.AccountName(s.cfg.Dir)
	if err != nil {
		return err
	}
	s.fleet = account
	s.pairs = pairs.New(pairs.Config{Fleet: account, Keys: s.keys.SealingPairs, Sealing: s.sealingOf})
	stored, err := s.store.Identify(ctx, map[string]string{
		factID: rand.Text(), factAccount: account,
		factCursors: rand.Text(),
	})
	if err != nil {
		return err
	}
	if stored[factAccount] != account {
		return fmt.Errorf("the database belongs to fleet %s, but the keys in %s belong to fleet %s: "+
			"import the keys of the database's fleet here ('drover server keys export' on one of its servers, 'drover server keys import' into a new data directory here), "+
			"or choose another database; if the keys of the database are lost for good, 'drover server keys adopt' binds the database to the keys here, and every host joins again",
			stored[factAccount], s.cfg.Dir, account)
	}
	s.database, s.cursors = stored[factID], []byte(stored[factCursors])
	return nil
}

// storedPackages are the packages in the database, as a depot gives them.
type storedPackages struct{ store.Packages }

// Signed implements depot.Source.
func (s storedPackages) Signed(ctx context.Context, version, arch string) ([]byte, error) {
	p, err := s.GetPackage(ctx, version, arch)
	return []byte(p.Signed), missing(err)
}

// Piece implements depot.Source.
func (s storedPackages) Piece(ctx context.Context, version, arch string, piece int) ([]byte, error) {
	data, err := s.GetPiece(ctx, version, arch, piece)
	return data, missing(err)
}

func missing(err error) error {
	if errors.Is(err, store.ErrNotFound) {
		return wire.ErrNoPackage
	}
	return err
}
