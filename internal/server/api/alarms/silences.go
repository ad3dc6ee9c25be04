package alarms

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	v1 "drover/api/v1"
	"drover/internal/crontab"
	"drover/internal/server/access"
	"drover/internal/server/api/call"
	"drover/internal/server/bus"
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
	// silencesShown is how long the list has an ended silence: as long as the server keeps its events.
	silencesShown = 28 * 24 * time.Hour
)

func (h *Handler) viewSilence(s store.Silence) v1.Silence {
	v := v1.Silence{
		ID: s.ID, State: v1.SilencePending, Processes: s.Processes, Hosts: s.Hosts,
		Select: s.Selector, Labels: s.Labels, From: s.From, Until: s.Until,
		Cron: s.Cron, TimeZone: s.Zone, Seconds: s.Length.Seconds(),
		Message: s.Message, App: s.App, User: s.User, CreatedAt: s.Created,
		RemovedAt: call.OptionalTime(s.Removed), Withheld: s.Withheld,
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

// maySilence returns the right that the caller lacks for a silence; empty if the caller may make it. An app without an
// administrator's rights may silence whole namespaces in which it has the right on every host.
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

// CreateSilence withholds alarms for some time.
func (h *Handler) CreateSilence(ctx context.Context, c *call.Call) (call.Reply, error) {
	var req v1.SilenceRequest
	check := func() error {
		_, err := SilenceOf(&req, h.Now())
		return err
	}
	if err := c.Decode(ctx, &req, check); err != nil {
		return call.Reply{}, err
	}
	covers := slices.Concat(req.Processes, req.Hosts, []string{req.Select})
	c.Audit.Target = edge.Clip(strings.TrimSpace(strings.Join(covers, " ")))
	c.Audit.Detail, _ = json.Marshal(req) // it was decoded from JSON
	now := h.Now()
	s, err := SilenceOf(&req, now)
	if err != nil {
		return call.Reply{}, err
	}
	if missing := maySilence(&c.Principal, s.Processes); missing.Any() {
		return call.Reply{}, call.Forbidden(missing)
	}
	list, err := h.Receivers.Silences.ListSilences(ctx, now)
	if err != nil {
		return call.Reply{}, call.Failure("list the silences", err)
	}
	if len(list) >= maxSilences {
		return call.Reply{}, call.Problemf(http.StatusConflict, "there are %d silences already: expected at most %d", len(list),
			maxSilences)
	}
	s.ID, s.App, s.User, s.Created = strings.ToLower(rand.Text()[:10]), c.Principal.App, c.Principal.User, now
	if err := h.Receivers.Silences.CreateSilence(ctx, s); err != nil {
		return call.Reply{}, call.StoreProblem(err, "silence", s.ID)
	}
	h.Bus.Changed(bus.Receivers)
	return call.Reply{Status: http.StatusCreated, Body: h.viewSilence(s), Location: "/silences/" + s.ID}, nil
}

// SilenceOf checks a request for a silence.
func SilenceOf(r *v1.SilenceRequest, now time.Time) (store.Silence, error) {
	s := store.Silence{
		Processes: r.Processes, Hosts: r.Hosts, Selector: r.Select, Labels: r.Labels, From: now, Message: r.Message,
	}
	faults := []error{
		cmp.Or(call.CheckHosts("hosts", r.Hosts), call.CheckPatterns("hosts", r.Hosts)),
		call.CheckProcesses("processes", r.Processes), checkSelector("select", &s.Selector),
		checkSelector("labels", &s.Labels), call.CheckLength("message", r.Message, maxSilenceMessage),
	}
	if len(r.Processes)+len(r.Hosts) == 0 && r.Select == "" && r.Labels == "" {
		faults = append(faults, call.Invalid("processes",
			"is missing: expected processes, hosts, select or labels; the process */* stands for all"))
	}
	if r.From != nil {
		if s.From = r.From.UTC(); s.From.Before(now.Add(-time.Minute)) {
			faults = append(faults, call.Invalid("from", "is %s: expected a time that has not passed",
				s.From.Format(time.RFC3339)))
			s.From = now // so that the end is not blamed
		}
	}
	if r.Cron != "" || r.TimeZone != "" {
		return s, call.Together(append(faults, repeats(&s, r, now))...)
	}
	return s, call.Together(append(faults, ends(&s, r, now))...)
}

// ListSilences lists the silences that the caller could make, on one page.
func (h *Handler) ListSilences(ctx context.Context, c *call.Call) (call.Reply, error) {
	ended := c.Params.Flag("ended")
	if err := c.Params.Done(); err != nil {
		return call.Reply{}, err
	}
	after := h.Now()
	if ended != nil && *ended {
		after = after.Add(-silencesShown)
	}
	list, err := h.Receivers.Silences.ListSilences(ctx, after)
	if err != nil {
		return call.Reply{}, call.Failure("list the silences", err)
	}
	views := []v1.Silence{}
	for _, s := range list {
		if missing := maySilence(&c.Principal, s.Processes); !missing.Any() {
			views = append(views, h.viewSilence(s))
		}
	}
	return call.OK(call.PageOf(c, views, nil))
}

// silenceNamed returns the silence of a path. For a caller, a silence that the caller could not make does not exist.
func (h *Handler) silenceNamed(ctx context.Context, c *call.Call) (store.Silence, error) {
	id := c.Subject("id")
	if err := c.Params.Done(); err != nil {
		return store.Silence{}, err
	}
	list, err := h.Receivers.Silences.ListSilences(ctx, h.Now().Add(-silencesShown))
	if err != nil {
		return store.Silence{}, call.Failure("list the silences", err)
	}
	for _, s := range list {
		if missing := maySilence(&c.Principal, s.Processes); s.ID == id && !missing.Any() {
			return s, nil
		}
	}
	return store.Silence{}, call.StoreProblem(store.ErrNotFound, "silence", id)
}

// GetSilence shows a silence.
func (h *Handler) GetSilence(ctx context.Context, c *call.Call) (call.Reply, error) {
	s, err := h.silenceNamed(ctx, c)
	if err != nil {
		return call.Reply{}, err
	}
	return call.OK(h.viewSilence(s))
}

// RemoveSilence ends a silence. The server then delivers the alarms whose reason still exists.
func (h *Handler) RemoveSilence(ctx context.Context, c *call.Call) (call.Reply, error) {
	s, err := h.silenceNamed(ctx, c)
	if err != nil {
		return call.Reply{}, err
	}
	if s, err = h.Receivers.Silences.RemoveSilence(ctx, s.ID, h.Now()); err != nil {
		return call.Reply{}, call.StoreProblem(err, "silence", s.ID)
	}
	h.Bus.Changed(bus.Receivers)
	return call.OK(h.viewSilence(s))
}

// ends reads the end of a silence with one window.
func ends(s *store.Silence, r *v1.SilenceRequest, now time.Time) error {
	switch {
	case r.Until != nil && r.Seconds != 0:
		return call.Invalid("seconds", "is given beside until: expected one of both")
	case r.Until != nil:
		s.Until = r.Until.UTC()
	case r.Seconds > 0 && r.Seconds <= longestSilence.Seconds():
		s.Until = s.From.Add(time.Duration(math.Ceil(r.Seconds * float64(time.Second))))
	case r.Seconds == 0:
		return call.Invalid("until", "is missing: expected until, or seconds")
	default:
		return call.Invalid("seconds", "is %s: expected more than 0, at most %.0f days", inSeconds(r.Seconds),
			longestSilence.Hours()/24)
	}
	switch {
	case !s.Until.After(s.From) || !s.Until.After(now):
		return call.Invalid("until", "is %s: expected a time after the beginning, in the future",
			s.Until.Format(time.RFC3339))
	case s.Until.Sub(s.From) > longestSilence:
		return call.Invalid("until", "is more than %d days after the beginning", int(longestSilence.Hours()/24))
	case s.From.Sub(now) > longestSilence:
		return call.Invalid("from", "is more than %d days ahead", int(longestSilence.Hours()/24))
	}
	return nil
}

// inSeconds returns the text of a duration in seconds. From a minute on, the text also has the duration in larger
// units.
func inSeconds(n float64) string {
	text := call.Decimal(n) + " seconds"
	if n < 60 || !(n < 1e9) {
		return text
	}
	return v1.Duration(n*float64(time.Second)).String() + " (" + text + ")"
}

// repeats reads the timetable of a silence with many windows.
func repeats(s *store.Silence, r *v1.SilenceRequest, now time.Time) error {
	rule, err := call.Timetable(r.Cron, r.TimeZone)
	faults := []error{err}
	s.Cron, s.Zone, s.Until = r.Cron, r.TimeZone, store.Forever()
	if !(r.Seconds > 0 && r.Seconds <= longestWindow.Seconds()) { // rejects NaN too
		faults = append(faults, call.Invalid("seconds", "is %s: expected more than 0, at most %.0f days for each window",
			inSeconds(r.Seconds), longestWindow.Hours()/24))
	}
	s.Length = time.Duration(math.Ceil(r.Seconds * float64(time.Second)))
	if r.Until != nil {
		if s.Until = r.Until.UTC(); !s.Until.After(s.From) || !s.Until.After(now) || s.Until.After(store.Forever()) {
			faults = append(faults, call.Invalid("until", "is %s: expected a time after the beginning, in the future",
				s.Until.Format(time.RFC3339)))
		}
	}
	if err := call.Together(faults...); err != nil {
		return err
	}
	if _, _, any := s.Window(rule, now); !any {
		return call.Invalid("cron", "has no time between from and until")
	}
	return apart(rule, s.Length, now)
}

// apart rejects a timetable whose windows overlap.
func apart(rule crontab.Rule, length time.Duration, now time.Time) error {
	const looked = 100 // windows
	before, more := rule.Next(now)
	for range looked {
		next, again := rule.Next(before)
		if more = more && again; !more {
			break
		}
		if gap := next.Sub(before); gap <= length {
			return call.Invalid("seconds", "is %s: a window begins every %s, so the silence would not end: expected less",
				length, gap)
		}
		before = next
	}
	return nil
}
