package sqlstore

import (
	"context"
	"database/sql"

	"drover/internal/server/store"
)

// admit refuses what a report tells that was overtaken by a later one of its agent, and takes down the place of one that tells something
// or begins a session. Until the transaction ends, no other report of the agent is looked at.
func (db *Store) admit(ctx context.Context, tx tx, from store.ReportMark, tells bool) error {
	if from.Session == "" {
		return nil
	}
	var session string
	var number int64
	err := tx.query(ctx, func(rows *sql.Rows) error { return rows.Scan(&session, &number) },
		`SELECT session, number FROM agent_reports WHERE agent = ?`+db.dialect.Locked, from.Agent)
	switch {
	case err != nil:
		return err
	case session == from.Session && from.Number < number:
		return store.ErrOvertaken
	case session != from.Session && session != "" && !from.Hello:
		return store.ErrOtherSession
	case session == from.Session && !tells:
		return nil
	}
	return tx.exec(ctx, `INSERT INTO agent_reports (agent, session, number) VALUES (?, ?, ?)
		ON CONFLICT (agent) DO UPDATE SET session = excluded.session, number = excluded.number`, from.Agent, from.Session, from.Number)
}
