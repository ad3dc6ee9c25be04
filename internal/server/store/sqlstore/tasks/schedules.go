package tasks

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"
	"time"

	"drover/internal/process"
	"drover/internal/server/store"
	"drover/internal/server/store/sqlstore/events"
	"drover/internal/server/store/sqlstore/kit"
)

// CreateSchedule inserts a schedule.
func (db *Tasks) CreateSchedule(ctx context.Context, s store.Schedule) error {
	err := db.Write(ctx, func(ctx context.Context, tx kit.Tx) error {
		return kit.Inserted(tx.Affect(ctx,
			`INSERT INTO schedules (name, app, "user", created, cron, zone, message, request,
				paused, looked)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`,
			s.Name, s.App, s.User, kit.Nanos(s.Created), s.Cron, s.Zone, s.Message, string(s.Request),
			kit.Flag(s.Paused),
			kit.Nanos(s.Looked)))
	})
	if err != nil {
		return fmt.Errorf("cannot create schedule %q: %w", s.Name, err)
	}
	return nil
}

const selectSchedules = `SELECT name, app, "user", created, cron, zone, message, request, paused, looked, missed,
		failing_agent, failing_namespace, failing_name
	FROM schedules `

func scanSchedule(rows *sql.Rows) (s store.Schedule, err error) {
	var created, looked, paused int64
	var request string
	err = rows.Scan(&s.Name, &s.App, &s.User, &created, &s.Cron, &s.Zone, &s.Message, &request, &paused, &looked,
		&s.MissedRuns, &s.Failing.Agent, &s.Failing.Process.Namespace, &s.Failing.Process.Name)
	s.Created, s.Looked, s.Paused, s.Request = kit.Moment(created), kit.Moment(looked), paused != 0, []byte(request)
	return s, err
}

// GetSchedule returns one schedule.
func (db *Tasks) GetSchedule(ctx context.Context, name, app string) (store.Schedule, error) {
	s, err := kit.One(ctx, db.Query, scanSchedule, selectSchedules+`WHERE name = ?1 AND (?2 = '' OR app = ?2)`,
		name, app)
	if err != nil {
		return s, fmt.Errorf("cannot read schedule %q: %w", name, err)
	}
	runs, err := db.ListRuns(ctx, name, 1)
	if err == nil && len(runs) > 0 {
		s.Last = &runs[0]
	}
	return s, err
}

// ListSchedules returns all schedules of an app.
func (db *Tasks) ListSchedules(ctx context.Context, app string) ([]store.Schedule, error) {
	list, err := kit.All(ctx, db.Query, scanSchedule, selectSchedules+`WHERE ?1 = '' OR app = ?1 ORDER BY name`, app)
	if err != nil || len(list) == 0 {
		return nil, kit.Wrapped(err, "cannot list schedules")
	}
	place := make(map[string]int, len(list))
	for i := range list {
		place[list[i].Name] = i
	}
	runs, err := kit.All(ctx, db.Query, scanRun, `SELECT `+runColumns+` FROM schedules s
		CROSS JOIN schedule_runs r ON r.schedule = s.name
			AND r.due = (SELECT max(l.due) FROM schedule_runs l WHERE l.schedule = s.name)`)
	for i := range runs {
		if at, known := place[runs[i].Schedule]; known {
			list[at].Last = &runs[i]
		}
	}
	return list, kit.Wrapped(err, "cannot list schedules")
}

// PauseSchedule pauses or resumes a schedule.
func (db *Tasks) PauseSchedule(ctx context.Context, name, app string, paused bool, now time.Time) (
	store.Schedule, error,
) {
	err := db.Write(ctx, func(ctx context.Context, tx kit.Tx) error {
		return kit.Affected(tx.Affect(ctx, `UPDATE schedules SET looked = CASE WHEN paused = 1 AND ?3 = 0 THEN ?4 ELSE looked END,
				paused = ?3
			WHERE name = ?1 AND (?2 = '' OR app = ?2)`, name, app, kit.Flag(paused), kit.Nanos(now)))
	})
	if err != nil {
		return store.Schedule{}, fmt.Errorf("cannot change schedule %q: %w", name, err)
	}
	return db.GetSchedule(ctx, name, app)
}

// RemoveSchedule deletes a schedule and ends its alarm.
func (db *Tasks) RemoveSchedule(ctx context.Context, name, app string, now time.Time) (told bool, err error) {
	n, err := db.events.WriteEvents(ctx, now, func(ctx context.Context, tx kit.Tx, events *events.Arrivals) error {
		s, err := kit.One(ctx, tx.Query, func(rows *sql.Rows) (s store.Schedule, err error) {
			var created int64
			err = rows.Scan(&created, &s.Failing.Agent, &s.Failing.Process.Namespace, &s.Failing.Process.Name)
			s.Created = kit.Moment(created)
			return s, err
		}, `DELETE FROM schedules WHERE name = ?1 AND (?2 = '' OR app = ?2)
			RETURNING created, failing_agent, failing_namespace, failing_name`, name, app)
		if err != nil {
			return err
		}
		if err := tx.Exec(ctx, `DELETE FROM schedule_runs WHERE schedule = ?`, name); err != nil {
			return err
		}
		if s.Failing == (store.ObservedKey{}) {
			return nil
		}
		e, err := store.ScheduleEvent(name, "removed-"+strconv.FormatInt(s.Created.UnixNano(), 36), process.Event{
			Process: s.Failing.Process, Kind: process.EventScheduleRecovered, At: now.UnixMilli(),
			Cause: process.Cause{Text: "somebody removed it"},
		})
		if err != nil {
			return err
		}
		events.Agent = s.Failing.Agent
		return events.Add(ctx, tx, &e)
	})
	return n > 0, kit.Wrapped(err, fmt.Sprintf("cannot remove schedule %q", name))
}

// PutRun stores a run that does not begin.
func (db *Tasks) PutRun(ctx context.Context, r store.ScheduleRun) error {
	err := db.Write(ctx, func(ctx context.Context, tx kit.Tx) error { return putRun(ctx, tx, &r) })
	return kit.Wrapped(err, fmt.Sprintf("cannot store a run of schedule %q", r.Schedule))
}

// putRun inserts a run; nil inserts nothing. It locks the row of the schedule, so that transactions about its runs
// follow one another.
func putRun(ctx context.Context, tx kit.Tx, r *store.ScheduleRun) error {
	if r == nil {
		return nil
	}
	byHand := r.User != ""
	due, missed := kit.Nanos(r.Due), 0
	if r.State == store.RunMissed {
		missed = r.Count
	}
	n, err := tx.Affect(ctx, `UPDATE schedules SET looked = CASE WHEN ?1 = 1 THEN looked ELSE ?2 END, missed = missed + ?3
		WHERE name = ?4 AND created = ?5 AND (?1 = 1 OR paused = 0 AND looked = ?6)`,
		kit.Flag(byHand), due, missed, r.Schedule, kit.Nanos(r.Created), kit.Nanos(r.Looked))
	if err != nil {
		return err
	}
	if n == 0 {
		return store.ErrDecided
	}
	if r.State == store.RunRunning {
		goesOn, err := kit.One(ctx, tx.Query, kit.Column[bool],
			`SELECT EXISTS (SELECT 1 FROM schedule_runs WHERE schedule = ? AND state = 'running')`, r.Schedule)
		if err != nil {
			return err
		}
		if goesOn {
			return store.ErrRunning
		}
	}
	n, err = tx.Affect(ctx, `INSERT INTO schedule_runs (schedule, due, state, text, task, rollout, count, ended, "user")
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`,
		r.Schedule, due, string(r.State), r.Text, r.Task, r.Rollout, r.Count, kit.Nanos(r.Ended), r.User)
	if err != nil {
		return err
	}
	if n == 0 {
		return store.ErrDecided
	}
	return tx.Exec(ctx, `DELETE FROM schedule_runs WHERE schedule = ?1 AND state <> 'running' AND due < (
		SELECT min(k.due) FROM (SELECT due FROM schedule_runs WHERE schedule = ?1 ORDER BY due DESC LIMIT ?2) k)`,
		r.Schedule, store.KeptRuns)
}

// EndRun stores the result of a run, and the event that begins or ends an alarm.
func (db *Tasks) EndRun(ctx context.Context, end store.RunEnd) error {
	r, err := end.Run, error(nil)
	if end.AlarmEvent == nil {
		err = db.Write(ctx, func(ctx context.Context, tx kit.Tx) error { return endRun(ctx, tx, &end) })
	} else {
		_, err = db.events.WriteEvents(ctx, r.Ended, func(
			ctx context.Context, tx kit.Tx, events *events.Arrivals,
		) error {
			if err := endRun(ctx, tx, &end); err != nil {
				return err
			}
			events.Agent = end.Agent
			return events.Add(ctx, tx, end.AlarmEvent)
		})
	}
	return kit.Wrapped(err, fmt.Sprintf("cannot store the result of a run of schedule %q", r.Schedule))
}

// endRun changes the rows of a schedule and a run, in the order of all transactions about runs.
func endRun(ctx context.Context, tx kit.Tx, end *store.RunEnd) error {
	r, f := &end.Run, &end.Failing
	if err := tx.Exec(ctx, `UPDATE schedules SET failing_agent = ?, failing_namespace = ?, failing_name = ? WHERE name = ?`,
		f.Agent, f.Process.Namespace, f.Process.Name, r.Schedule); err != nil {
		return err
	}
	n, err := tx.Affect(ctx, `UPDATE schedule_runs SET state = ?, text = ?, ended = ?
		WHERE schedule = ? AND due = ? AND task = ? AND rollout = ? AND state = 'running'`,
		string(r.State), r.Text, kit.Nanos(r.Ended), r.Schedule, kit.Nanos(r.Due), r.Task, r.Rollout)
	if err == nil && n == 0 {
		return store.ErrDecided
	}
	return err
}

// CorrectSchedule sets back the time up to which all due times of a schedule are decided.
func (db *Tasks) CorrectSchedule(ctx context.Context, s store.Schedule, now time.Time) error {
	err := db.Write(ctx, func(ctx context.Context, tx kit.Tx) error {
		n, err := tx.Affect(ctx, `UPDATE schedules SET looked = ? WHERE name = ? AND created = ? AND looked = ?`,
			kit.Nanos(now), s.Name, kit.Nanos(s.Created), kit.Nanos(s.Looked))
		if err != nil {
			return err
		}
		if n == 0 {
			return store.ErrDecided
		}
		if err := tx.Exec(ctx, `DELETE FROM schedule_runs WHERE schedule = ? AND due >= ? AND state <> 'running'`, s.Name,
			kit.Nanos(now)); err != nil {
			return err
		}
		return tx.Exec(ctx, `UPDATE schedule_runs SET due = ?1 WHERE schedule = ?2 AND due > ?1`, kit.Nanos(now), s.Name)
	})
	return kit.Wrapped(err, fmt.Sprintf("cannot correct schedule %q", s.Name))
}

const (
	runColumns = `r.schedule, r.due, r.state, r.text, r.task, r.rollout, r.count, r.ended, r."user"`
	selectRuns = `SELECT ` + runColumns + ` FROM schedule_runs r `
)

func scanRun(rows *sql.Rows) (r store.ScheduleRun, err error) {
	var due, ended int64
	err = rows.Scan(&r.Schedule, &due, &r.State, &r.Text, &r.Task, &r.Rollout, &r.Count, &ended, &r.User)
	r.Due, r.Ended = kit.Moment(due), kit.Moment(ended)
	return r, err
}

// OpenRuns returns the runs that have not ended.
func (db *Tasks) OpenRuns(ctx context.Context) ([]store.ScheduleRun, error) {
	runs, err := kit.All(ctx, db.Query, scanRun, selectRuns+`WHERE r.state = 'running' ORDER BY r.schedule`)
	return runs, kit.Wrapped(err, "cannot list the open runs of schedules")
}

// ListRuns returns the latest runs of a schedule.
func (db *Tasks) ListRuns(ctx context.Context, schedule string, limit int) ([]store.ScheduleRun, error) {
	runs, err := kit.All(ctx, db.Query, scanRun, selectRuns+`WHERE r.schedule = ? ORDER BY r.due DESC LIMIT ?`,
		schedule,
		max(limit, 0))
	return runs, kit.Wrapped(err, fmt.Sprintf("cannot list the runs of schedule %q", schedule))
}
