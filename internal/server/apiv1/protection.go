package apiv1

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"math"
	"net/http"
	"strings"
	"time"

	v1 "drover/api/v1"
	"drover/internal/process"
	"drover/internal/server/access"
	"drover/internal/server/edge"
	"drover/internal/server/store"
	"drover/internal/wildcard"
)

// The bounds of silences.
const (
	maxSilences       = 1000
	longestSilence    = 366 * 24 * time.Hour
	longestWindow     = 31 * 24 * time.Hour
	maxSilenceMessage = 1000
	// silencesShown is how long an ended silence is listed: as long as its events are stored.
	silencesShown = 28 * 24 * time.Hour
)

func (h *Handler) viewSilence(s store.Silence) v1.Silence {
	v := v1.Silence{
		ID: s.ID, State: v1.SilencePending, Processes: s.Processes, Select: s.Selector, Labels: s.Labels,
		From: s.From, Until: s.Until, Cron: s.Cron, TimeZone: s.Zone, Seconds: s.Length.Seconds(),
		Message: s.Message, App: s.App, User: s.User, CreatedAt: s.Created,
		RemovedAt: given(s.Removed), Withheld: s.Withheld,
	}
	if v.Processes == nil {
		v.Processes = []string{}
	}
	if s.Until.Equal(store.Forever()) {
		v.Until = time.Time{}
	}
	now := h.Now()
	rule, err := s.Timetable()
	from, until, any := s.Window(rule, now)
	switch {
	case err != nil || !any: // it was read before it was stored
		v.State = v1.SilenceEnded
	case !now.Before(from):
		v.State = v1.SilenceActive
	}
	if s.Cron != "" && any {
		v.WindowFrom, v.WindowUntil = &from, &until
	}
	return v
}

// maySilence returns the right that the caller lacks for a silence. An app without an administrator's rights may
// silence whole namespaces in which it has the right on every host.
func maySilence(who *access.Principal, processes []string) (missing access.Missing) {
	if who.Admin {
		return missing
	}
	if len(processes) == 0 {
		processes = []string{access.All}
	}
	for _, pattern := range processes {
		namespace, _, _ := strings.Cut(pattern, "/")
		if wildcard.IsPattern(namespace) && !allNamespaces(who) || !who.On(access.Silence, namespace).Everywhere() {
			missing.Found(access.Silence, pattern, "")
		}
	}
	return missing
}

// allNamespaces reports whether the caller has the right in every namespace.
func allNamespaces(who *access.Principal) bool { return who.Namespaces(access.Silence) == nil }

// createSilence withholds alarms for some time.
func (h *Handler) createSilence(ctx context.Context, c *call) (reply, error) {
	var req v1.SilenceRequest
	if err := c.decode(ctx, &req); err != nil {
		return reply{}, err
	}
	c.Audit.Target = edge.Clip(strings.TrimSpace(strings.Join(req.Processes, " ") + " " + req.Select))
	c.Audit.Detail, _ = json.Marshal(req) // it was decoded from JSON
	now := h.Now()
	s, err := silenceOf(&req, now)
	if err != nil {
		return reply{}, err
	}
	if missing := maySilence(&c.Principal, s.Processes); missing.Any() {
		return reply{}, forbidden(missing)
	}
	list, err := h.Receivers.Silences.ListSilences(ctx, now)
	if err != nil {
		return reply{}, failure("list the silences", err)
	}
	if len(list) >= maxSilences {
		return reply{}, problemf(http.StatusConflict, "there are %d silences already: expected at most %d", len(list),
			maxSilences)
	}
	s.ID, s.App, s.User, s.Created = strings.ToLower(rand.Text()[:10]), c.Principal.App, c.Principal.User, now
	if err := h.Receivers.Silences.CreateSilence(ctx, s); err != nil {
		return reply{}, stored(err, "silence", s.ID)
	}
	h.Receivers.Sender.Changed()
	return reply{status: http.StatusCreated, body: h.viewSilence(s), location: "/silences/" + s.ID}, nil
}

// silenceOf checks a request for a silence.
func silenceOf(r *v1.SilenceRequest, now time.Time) (store.Silence, error) {
	s := store.Silence{Processes: r.Processes, Selector: r.Select, Labels: r.Labels, From: now, Message: r.Message}
	if len(r.Processes) == 0 && r.Select == "" && r.Labels == "" {
		return s, invalid("processes",
			"is missing: expected processes, select or labels; the process */* stands for all")
	}
	if err := checkProcesses("processes", r.Processes); err != nil {
		return s, err
	}
	if err := checkSelector("select", &s.Selector); err != nil {
		return s, err
	}
	if err := checkSelector("labels", &s.Labels); err != nil {
		return s, err
	}
	if len(r.Message) > maxSilenceMessage {
		return s, invalid("message", "is %d bytes long: expected at most %d", len(r.Message), maxSilenceMessage)
	}
	if r.From != nil {
		if s.From = r.From.UTC(); s.From.Before(now.Add(-time.Minute)) {
			return s, invalid("from", "is %s: expected a time that has not passed", s.From.Format(time.RFC3339))
		}
	}
	if r.Cron != "" || r.TimeZone != "" {
		return s, repeats(&s, r, now)
	}
	return s, ends(&s, r, now)
}

// ends reads the end of a silence with one window.
func ends(s *store.Silence, r *v1.SilenceRequest, now time.Time) error {
	switch {
	case r.Until != nil && r.Seconds != 0:
		return invalid("seconds", "is given beside until: expected one of both")
	case r.Until != nil:
		s.Until = r.Until.UTC()
	case r.Seconds > 0 && r.Seconds <= longestSilence.Seconds():
		s.Until = s.From.Add(time.Duration(math.Ceil(r.Seconds * float64(time.Second))))
	case r.Seconds == 0:
		return invalid("until", "is missing: expected until, or seconds")
	default:
		return invalid("seconds", "is %v: expected more than 0, at most %.0f", r.Seconds, longestSilence.Seconds())
	}
	switch {
	case !s.Until.After(s.From) || !s.Until.After(now):
		return invalid("until", "is %s: expected a time after the beginning, in the future",
			s.Until.Format(time.RFC3339))
	case s.Until.Sub(s.From) > longestSilence:
		return invalid("until", "is more than %d days after the beginning", int(longestSilence.Hours()/24))
	case s.From.Sub(now) > longestSilence:
		return invalid("from", "is more than %d days ahead", int(longestSilence.Hours()/24))
	}
	return nil
}

// repeats reads the timetable of a silence with many windows.
func repeats(s *store.Silence, r *v1.SilenceRequest, now time.Time) error {
	rule, err := timetable(r.Cron, r.TimeZone)
	if err != nil {
		return err
	}
	s.Cron, s.Zone, s.Until = r.Cron, r.TimeZone, store.Forever()
	if !(r.Seconds > 0 && r.Seconds <= longestWindow.Seconds()) { // rejects NaN too
		return invalid("seconds", "is %v: expected more than 0, at most %.0f: the length of each window", r.Seconds,
			longestWindow.Seconds())
	}
	s.Length = time.Duration(math.Ceil(r.Seconds * float64(time.Second)))
	if r.Until != nil {
		if s.Until = r.Until.UTC(); !s.Until.After(s.From) || !s.Until.After(now) || s.Until.After(store.Forever()) {
			return invalid("until", "is %s: expected a time after the beginning, in the future",
				s.Until.Format(time.RFC3339))
		}
	}
	if _, _, any := s.Window(rule, now); !any {
		return invalid("cron", "has no time between from and until")
	}
	return nil
}

// listSilences lists the silences that the caller could make, on one page.
func (h *Handler) listSilences(ctx context.Context, c *call) (reply, error) {
	ended := c.params.flag("ended")
	if err := c.params.done(); err != nil {
		return reply{}, err
	}
	after := h.Now()
	if ended != nil && *ended {
		after = after.Add(-silencesShown)
	}
	list, err := h.Receivers.Silences.ListSilences(ctx, after)
	if err != nil {
		return reply{}, failure("list the silences", err)
	}
	views := []v1.Silence{}
	for _, s := range list {
		if missing := maySilence(&c.Principal, s.Processes); !missing.Any() {
			views = append(views, h.viewSilence(s))
		}
	}
	return ok(pageOf(c, views, nil))
}

// silenceNamed returns the silence of a path. A silence that the caller could not make does not exist for it.
func (h *Handler) silenceNamed(ctx context.Context, c *call) (store.Silence, error) {
	id := c.subject("id")
	if err := c.params.done(); err != nil {
		return store.Silence{}, err
	}
	list, err := h.Receivers.Silences.ListSilences(ctx, h.Now().Add(-silencesShown))
	if err != nil {
		return store.Silence{}, failure("list the silences", err)
	}
	for _, s := range list {
		if missing := maySilence(&c.Principal, s.Processes); s.ID == id && !missing.Any() {
			return s, nil
		}
	}
	return store.Silence{}, stored(store.ErrNotFound, "silence", id)
}

func (h *Handler) getSilence(ctx context.Context, c *call) (reply, error) {
	s, err := h.silenceNamed(ctx, c)
	if err != nil {
		return reply{}, err
	}
	return ok(h.viewSilence(s))
}

// removeSilence ends a silence: the alarms that still hold are delivered now.
func (h *Handler) removeSilence(ctx context.Context, c *call) (reply, error) {
	s, err := h.silenceNamed(ctx, c)
	if err != nil {
		return reply{}, err
	}
	if s, err = h.Receivers.Silences.RemoveSilence(ctx, s.ID, h.Now()); err != nil {
		return reply{}, stored(err, "silence", s.ID)
	}
	h.Receivers.Sender.Changed()
	return ok(h.viewSilence(s))
}

func viewBreaker(b store.Breaker) v1.Breaker {
	return v1.Breaker{
		Namespace: b.Process.Namespace, Name: b.Process.Name, Revision: b.Revision, Cause: string(b.Cause),
		Failed: b.Failed, Hosts: b.Hosts, OpenedAt: b.Opened, UntilAt: b.Until, ClosedAt: given(b.Closed),
		ClosedBy: b.ClosedBy,
	}
}

// listBreakers lists the open breakers of the processes that the caller may query on any host, on one page.
func (h *Handler) listBreakers(ctx context.Context, c *call) (reply, error) {
	closed := c.params.flag("closed")
	if err := c.params.done(); err != nil {
		return reply{}, err
	}
	list, err := h.Breakers.ListBreakers(ctx)
	if err != nil {
		return reply{}, failure("list the breakers", err)
	}
	views := []v1.Breaker{}
	for _, b := range list {
		wanted := b.Closed.IsZero() || closed != nil && *closed
		if wanted && !c.Principal.On(access.OperationOf(process.Query), b.Process.Namespace).Nowhere() {
			views = append(views, viewBreaker(b))
		}
	}
	return ok(pageOf(c, views, nil))
}

// resetBreaker closes a breaker. It needs the right to start the process on every host, because drover then relaunches
// it on every host.
func (h *Handler) resetBreaker(ctx context.Context, c *call) (reply, error) {
	id := process.ID{Namespace: c.r.PathValue("namespace"), Name: c.r.PathValue("name")}
	c.Audit.Target = edge.Clip(id.Namespace + "/" + id.Name)
	if err := c.params.done(); err != nil {
		return reply{}, err
	}
	op := access.OperationOf(process.Start)
	if !c.Principal.On(op, id.Namespace).Everywhere() {
		var missing access.Missing
		missing.Found(op, c.Audit.Target, "every host")
		return reply{}, forbidden(missing)
	}
	by := c.Principal.User
	if by == "" {
		by = c.Principal.App
	}
	b, err := h.Breakers.CloseBreaker(ctx, id, h.Now(), by)
	if err != nil {
		return reply{}, stored(err, "breaker", c.Audit.Target)
	}
	return ok(viewBreaker(b))
}
