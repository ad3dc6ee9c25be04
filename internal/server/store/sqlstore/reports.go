package sqlstore

import (
	"context"
	"database/sql"
	"fmt"

	"drover/internal/server/store"
)

// admit refuses what a report tells that was overtaken by a later one of its agent, in its session or in another, and
// takes down the place of one that tells something or begins a session. Until the transaction ends, no other report of
// the agent is looked at.
func (db *Store) admit(ctx context.Context, tx tx, from store.ReportMark, tells bool) error {
	if from.Session == "" {
		return nil
	}
	session, number, err := db.lastReport(ctx, tx, from.Agent)
	switch {
	case err != nil:
		return err
	case session == from.Session && from.Number < number:
		return store.ErrOvertaken
	case from.Session < session && from.Hello:
		return store.ErrEarlierSession
	case session != from.Session && session != "" && !from.Hello:
		return store.ErrOtherSession
	case session == from.Session && !tells:
		return nil
	}
	return tx.exec(ctx, `INSERT INTO agent_reports (agent, session, number) VALUES (?, ?, ?)
		ON CONFLICT (agent) DO UPDATE SET session = excluded.session, number = excluded.number`,
		from.Agent, from.Session, from.Number)
}

// lastReport returns the place of the last report of an agent, with an empty session where there is none, and locks it.
func (db *Store) lastReport(ctx context.Context, tx tx, agent string) (session string, number int64, err error) {
	found := false
	read := func() error {
		return tx.query(ctx, func(rows *sql.Rows) error {
			found = true
			return rows.Scan(&session, &number)
		}, `SELECT session, number FROM agent_reports WHERE agent = ?`+db.dialect.Locked, agent)
	}
	if err = read(); err != nil || found {
		return session, number, err
	}
	// A row that is not there cannot be locked. Where another first report has just made it, this waits for that one's
	// end.
	if err = tx.exec(ctx, `INSERT INTO agent_reports (agent, session, number) VALUES (?, '', 0) ON CONFLICT DO NOTHING`,
		agent); err != nil {
		return "", 0, err
	}
	err = read()
	return session, number, err
}

// LastSession returns the session of the agent's last introduction.
func (db *Store) LastSession(ctx context.Context, agent string) (session string, err error) {
	err = db.query(ctx, func(rows *sql.Rows) error { return rows.Scan(&session) },
		`SELECT session FROM agent_reports WHERE agent = ?`, agent)
	if err != nil {
		return "", fmt.Errorf("cannot read the session of agent %s: %w", agent, err)
	}
	return session, nil
}
