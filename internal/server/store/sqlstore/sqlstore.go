// Package sqlstore keeps the server's state in an SQL database, a package for each group of tables. They own the
// statements, their meaning and the mapping of rows to values. The packages sqlite and postgres own the connections,
// the schema and the differences between databases; each of them has a sqldb.Backend. Package store defines the
// meaning of the state, and storetest proves it.
//
// Statements are written once, in the SQL that the databases share and in a few placeholders that a sqldb.Dialect
// replaces. Times are Unix nanoseconds, 0 for the zero time; flags are 0 or 1; structured values are JSON as text.
package sqlstore

import (
	"drover/internal/server/store"
	"drover/internal/server/store/sqldb"
	"drover/internal/server/store/sqlstore/alarms"
	"drover/internal/server/store/sqlstore/events"
	"drover/internal/server/store/sqlstore/fleet"
	"drover/internal/server/store/sqlstore/kit"
	"drover/internal/server/store/sqlstore/observed"
	"drover/internal/server/store/sqlstore/people"
	"drover/internal/server/store/sqlstore/tasks"
)

var _ store.Store = (*Store)(nil)

// Store is the state in a database. Any goroutine may call its methods.
//
// The context does not interrupt a write that has begun: the method returns when the database has stored or rejected
// it. The functions that TaskItems and GetObserved call hold a connection and a snapshot of the database. They must not
// call the Store, and must not wait for a slow peer.
type Store struct {
	*kit.DB
	*people.People
	*observed.Observed
	*events.Events
	*fleet.Fleet
	*alarms.Alarms
	*tasks.Tasks
}

// New returns the state in a database whose schema is up to date. If watch is not nil, it receives notices of what is
// stored.
func New(backend sqldb.Backend, watch kit.Watch) *Store {
	db := kit.New(backend, watch)
	p, o, a := people.New(db), observed.New(db), alarms.New(db)
	e := events.New(db, o)
	f := fleet.New(db, e)
	return &Store{
		DB: db, People: p, Observed: o, Events: e, Fleet: f, Alarms: a, Tasks: tasks.New(db, p, o, e, f),
	}
}
