package apiv1

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode"

	v1 "drover/api/v1"
	"drover/internal/process"
	"drover/internal/selector"
	"drover/internal/server/access"
	"drover/internal/server/edge"
	"drover/internal/server/enrol"
	"drover/internal/server/keyring"
	"drover/internal/server/store"
)

// Joining lets hosts join and leave. Enroller is nil if no host may join: in drover dev.
type Joining struct {
	Store    JoinTokens
	Enroller Enroller
	// Proxies is nil if Enroller is nil.
	Proxies Proxies
}

// JoinTokens is the register of tokens that hosts join with.
type JoinTokens interface {
	GetJoinToken(ctx context.Context, id string) (store.JoinToken, error)
	ListJoinTokens(ctx context.Context, before string, limit int) ([]store.JoinToken, error)
	RevokeJoinToken(ctx context.Context, id string, at time.Time) (store.JoinToken, error)
}

// Enroller lets hosts in, and takes them out.
type Enroller interface {
	NewToken(ctx context.Context, t store.JoinToken, ttl time.Duration) (made store.JoinToken, text string, err error)
	Join(ctx context.Context, data []byte, from enrol.Origin) (answer any, attempt enrol.Attempt, err error)
	Remove(ctx context.Context, key string, by process.Actor) error
	RemoveProxy(ctx context.Context, key string) error
}

// Bounds of tokens.
const (
	maxUses     = 100_000
	maxTokenTTL = 366 * 24 * time.Hour
	maxNote     = 1024
	maxArea     = 1<<31 - 1
)

func (h *Handler) viewJoinToken(t store.JoinToken) v1.JoinToken {
	v := v1.JoinToken{
		ID: t.ID, State: v1.TokenOpen, Role: string(t.Role), Cloud: t.Cloud, Labels: t.Labels, Business: t.Business,
		Replaces: h.replaced(t.Replaces), Note: t.Note, Uses: t.Uses, Used: t.Used,
		CreatedAt: t.Created, ExpiresAt: t.Expires, RevokedAt: given(t.Revoked),
	}
	if v.Labels == nil {
		v.Labels = map[string]string{}
	}
	switch {
	case !t.Revoked.IsZero():
		v.State = v1.TokenRevoked
	case !h.Now().Before(t.Expires):
		v.State = v1.TokenExpired
	case t.Used >= t.Uses:
		v.State = v1.TokenSpent
	}
	return v
}

func checkJoinToken(r *v1.JoinTokenRequest) error {
	faults := []error{checkLength("note", r.Note, maxNote)}
	fail := func(field, format string, args ...any) { faults = append(faults, invalid(field, format, args...)) }
	switch {
	case r.Role != "" && r.Role != string(store.RoleAgent) && r.Role != string(store.RoleProxy):
		fail("role", "is %q: expected %s or %s", r.Role, store.RoleAgent, store.RoleProxy)
	case r.Role == string(store.RoleProxy) && (len(r.Labels) > 0 || r.Business != 0 || r.Replaces != ""):
		fail("role", "is %s, and a proxy has neither labels nor a business, and replaces no host", store.RoleProxy)
	}
	if r.Replaces != "" && r.Uses != 1 {
		fail("uses", "is %d: expected 1, because the token is for one host", r.Uses)
	}
	if r.Cloud < 0 || r.Cloud > maxArea {
		fail("cloud", "is %d: expected 0 to %d", r.Cloud, maxArea)
	}
	if r.Business < 0 {
		fail("business", "is %d: expected 0 or more", r.Business)
	}
	if r.Uses < 1 || r.Uses > maxUses {
		fail("uses", "is %d: expected 1 to %d", r.Uses, maxUses)
	}
	if most := int64(maxTokenTTL / time.Second); r.TTLSeconds < 1 || r.TTLSeconds > most {
		fail("ttl_seconds", "is %d: expected 1 to %d", r.TTLSeconds, most)
	}
	for _, err := range selector.CheckLabels(r.Labels) {
		fail("labels", "%v", err)
	}
	return together(faults...)
}

// noEnroller is the problem of a server that hosts cannot join.
func noEnroller() error {
	return problemf(http.StatusConflict, "this is drover dev, which other hosts cannot join: run 'drover server'")
}

// createJoinToken creates a token with which hosts can join. Only this reply shows it.
func (h *Handler) createJoinToken(ctx context.Context, c *call) (reply, error) {
	var req v1.JoinTokenRequest
	if err := c.decode(ctx, &req, func() error { return checkJoinToken(&req) }); err != nil {
		return reply{}, err
	}
	c.Audit.Detail, _ = json.Marshal(req) // it was decoded from JSON
	if err := checkJoinToken(&req); err != nil {
		return reply{}, err
	}
	if h.Joining.Enroller == nil {
		return reply{}, noEnroller()
	}
	replaces, err := h.toReplace(&req)
	if err != nil {
		return reply{}, err
	}
	t, text, err := h.Joining.Enroller.NewToken(ctx, store.JoinToken{
		Role: store.Role(req.Role), Cloud: req.Cloud, Labels: req.Labels, Business: req.Business, Note: req.Note,
		Uses: req.Uses, Replaces: replaces,
	}, time.Duration(req.TTLSeconds)*time.Second)
	if err != nil {
		return reply{}, stored(err, "token", t.ID)
	}
	c.Audit.Target = t.ID
	v := h.viewJoinToken(t)
	v.Token = text
	return reply{status: http.StatusCreated, body: v, location: "/tokens/" + url.PathEscape(t.ID)}, nil
}

// knownHost finds a host by its key or any of its names.
func (h *Handler) knownHost(id string) (store.Agent, bool) {
	if a, there := h.Directory.ByKey(id); there {
		return a, true
	}
	return h.Directory.LookupID(id)
}

// toReplace returns the key of the agent whose place a host takes that joins with the token; empty if there is none.
func (h *Handler) toReplace(req *v1.JoinTokenRequest) (key string, err error) {
	if req.Replaces == "" {
		return "", nil
	}
	a, known := h.knownHost(req.Replaces)
	switch {
	case !known:
		return "", invalid("replaces", "is %s: there is no such host", edge.Clip(req.Replaces))
	case a.Cloud != req.Cloud:
		return "", invalid("cloud", "is %d: the host to replace is of area %d", req.Cloud, a.Cloud)
	default:
		return a.Key, nil
	}
}

// replaced returns the name of the host that a token replaces: the key, if that host is not there any more.
func (h *Handler) replaced(key string) string {
	if a, known := h.Directory.ByKey(key); known {
		return nameOf(a)
	}
	return key
}

func (h *Handler) listJoinTokens(ctx context.Context, c *call) (reply, error) {
	var before string
	limit, err := c.params.page(&before)
	if err != nil {
		return reply{}, err
	}
	list, err := h.Joining.Store.ListJoinTokens(ctx, before, limit)
	if err != nil {
		return reply{}, failure("list the tokens", err)
	}
	return ok(pageOfRows(c, list, limit, h.viewJoinToken, func(t store.JoinToken) any { return t.ID }))
}

func (h *Handler) getJoinToken(ctx context.Context, c *call) (reply, error) {
	id := c.subject("id")
	if err := c.params.done(); err != nil {
		return reply{}, err
	}
	t, err := h.Joining.Store.GetJoinToken(ctx, id)
	if err != nil {
		return reply{}, stored(err, "token", id)
	}
	return ok(h.viewJoinToken(t))
}

// revokeJoinToken ends a token. Hosts that have joined with it stay.
func (h *Handler) revokeJoinToken(ctx context.Context, c *call) (reply, error) {
	id := c.subject("id")
	if err := c.params.done(); err != nil {
		return reply{}, err
	}
	if _, err := h.Joining.Store.RevokeJoinToken(ctx, id, h.Now()); err != nil {
		return reply{}, stored(err, "token", id)
	}
	return reply{status: http.StatusNoContent}, nil
}

// maxJoin is the largest request to join.
const maxJoin = 16 << 10

// join admits a host that has a token. It is the only call without an app: the token is the only proof.
func (h *Handler) join(ctx context.Context, c *call) (reply, error) {
	if err := c.params.done(); err != nil {
		return reply{}, err
	}
	if h.Joining.Enroller == nil {
		return reply{}, noEnroller()
	}
	data, err := io.ReadAll(http.MaxBytesReader(c.w, c.r.Body, maxJoin))
	if err != nil {
		return reply{}, decodeProblem(err)
	}
	from := enrol.Origin{Remote: c.Audit.Remote}
	if relay, ok := ctx.Value(relayKey{}).(enrol.Relay); ok {
		from.Relay = &relay
	}
	enrolment, attempt, err := h.Joining.Enroller.Join(ctx, data, from)
	c.Audit.Detail, _ = json.Marshal(attempt) // a struct of texts and numbers
	c.Audit.Target = attempt.Key
	if attempt.Cloud != nil {
		c.Audit.Target = edge.Clip(fmt.Sprintf("%d:%s %s", *attempt.Cloud, attempt.IP, attempt.Key))
	}
	if refusal, ok := errors.AsType[*enrol.Refusal](err); ok {
		p := problemf(joinStatus(refusal.Reason), "%s", refusal.Text)
		p.retryAfter = int(math.Ceil(refusal.Retry.Seconds()))
		return reply{}, p
	}
	if err != nil {
		return reply{}, failure("let the host join", err)
	}
	c.Audit.Allowed = true
	return ok(enrolment)
}

// relayKey is the context key of the proxy that forwards a call.
type relayKey struct{}

// WithRelay marks a call that a proxy forwards. The fabric has authenticated the proxy.
func WithRelay(ctx context.Context, by enrol.Relay) context.Context {
	return context.WithValue(ctx, relayKey{}, by)
}

func joinStatus(r enrol.Reason) int {
	switch r {
	case enrol.Malformed:
		return http.StatusBadRequest
	case enrol.Unfit:
		return http.StatusUnprocessableEntity
	case enrol.Taken:
		return http.StatusConflict
	case enrol.TooOften:
		return http.StatusTooManyRequests
	case enrol.NotYet:
		return http.StatusServiceUnavailable
	default:
		return http.StatusForbidden
	}
}

// Proxies is the register of proxies.
type Proxies interface {
	// List returns all proxies, ordered by area and name.
	List() []Proxy
}

// Proxy is a proxy and its current status.
type Proxy struct {
	store.Proxy
	Online bool
	// LastSeen is zero for a proxy from which this server has received nothing since its start.
	LastSeen time.Time
	// Agents is how many are connected to it.
	Agents int
}

// proxies returns all proxies; none if no proxy can join.
func (h *Handler) proxies() []Proxy {
	if h.Joining.Proxies == nil {
		return nil
	}
	return h.Joining.Proxies.List()
}

// listProxies lists the proxies that have joined.
func (h *Handler) listProxies(_ context.Context, c *call) (reply, error) {
	limit := c.params.limit()
	var after proxyPlace
	c.params.cursor(&after)
	if err := c.params.done(); err != nil {
		return reply{}, err
	}
	list := behind(h.proxies(), after.before)
	var last any
	if len(list) > limit {
		list = list[:limit]
		last = proxyPlace{list[limit-1].Area, list[limit-1].Name}
	}
	views := make([]v1.Proxy, len(list))
	for i, p := range list {
		views[i] = v1.Proxy{
			Name: p.Name, Area: p.Area, Key: p.Key, Advertise: p.Advertise, Online: p.Online, Agents: p.Agents,
			Build: p.Build, LastSeen: given(p.LastSeen),
			JoinedAt: p.Created,
		}
	}
	return ok(pageOf(c, views, last))
}

// proxyPlace is the place of a proxy in the list of all proxies. The zero place is before every proxy.
type proxyPlace struct {
	Area int
	Name string
}

// before reports whether a proxy comes after the place.
func (p proxyPlace) before(one Proxy) bool {
	return cmp.Or(cmp.Compare(p.Area, one.Area), cmp.Compare(p.Name, one.Name)) < 0
}

// removeProxy removes a proxy, by its key or name.
func (h *Handler) removeProxy(ctx context.Context, c *call) (reply, error) {
	id := c.r.PathValue("id")
	c.Audit.Target = edge.Clip(id)
	if err := c.params.done(); err != nil {
		return reply{}, err
	}
	if h.Joining.Enroller == nil {
		return reply{}, noEnroller()
	}
	list := h.proxies()
	i := slices.IndexFunc(list, func(p Proxy) bool { return p.Key == id || p.Name == id })
	if i < 0 {
		return reply{}, problemf(http.StatusNotFound, "there is no proxy %q", edge.Clip(id))
	}
	c.Audit.Target = edge.Clip(fmt.Sprintf("%d:%s %s", list[i].Area, list[i].Name, list[i].Key))
	if err := h.Joining.Enroller.RemoveProxy(ctx, list[i].Key); err != nil {
		return reply{}, stored(err, "proxy", id)
	}
	return reply{status: http.StatusNoContent}, nil
}

// Keys holds the keys by which agents trust the server, and the number of agents that trust the current ones.
type Keys struct {
	Ring Ring
	// Reached returns the number of agents that are online, and how many of them trust the latest keys of the ring.
	Reached func() (online, reached int)
	// Without returns the names of the other servers that do not hold a key.
	Without func(ctx context.Context, key string) ([]string, error)
	// Stopped returns the other servers of the last days that do not run.
	Stopped func(ctx context.Context) ([]store.Server, error)
}

// Ring replaces keys while agents run.
type Ring interface {
	State() keyring.State
	Announce(ctx context.Context, kind keyring.Kind) (keyring.State, error)
	Advance(ctx context.Context, kind keyring.Kind, keep time.Duration) (keyring.State, error)
	Withdraw(ctx context.Context, kind keyring.Kind) (keyring.State, error)
	Retire(ctx context.Context, kind keyring.Kind, id string) (keyring.State, error)
}

// The bounds of the time for which a former key is kept.
const (
	leastKeep = time.Minute
	mostKeep  = 10 * 366 * 24 * time.Hour
)

func (h *Handler) viewKeys(s keyring.State) v1.Keys {
	v := v1.Keys{Keys: []v1.Key{}}
	for _, kind := range keyring.Kinds() {
		for _, k := range s.Keys[kind] {
			v.Keys = append(v.Keys, v1.Key{
				Kind: string(kind), ID: k.ID, Stage: string(k.Stage), Since: k.Since, Until: given(k.Until),
				Ends: given(k.Ends),
			})
		}
	}
	v.Online, v.Reached = h.Keys.Reached()
	return v
}

// keysReply returns the keys, and the servers that do not run and lack some.
func (h *Handler) keysReply(ctx context.Context, s keyring.State) (reply, error) {
	v := h.viewKeys(s)
	stopped, err := h.Keys.Stopped(ctx)
	if err != nil {
		return reply{}, failure("list the servers", err)
	}
	for _, server := range stopped {
		one := v1.StoppedServer{Name: edge.Clip(server.Name), LastSeenAt: server.Beat.UTC()}
		for _, kind := range keyring.Kinds() {
			if slices.ContainsFunc(s.Keys[kind], func(k keyring.Key) bool {
				return (k.Stage == keyring.Present || k.Stage == keyring.Next) && !slices.Contains(server.Keys, k.ID)
			}) {
				one.Lacks = append(one.Lacks, string(kind))
			}
		}
		if len(one.Lacks) > 0 {
			v.StoppedServers = append(v.StoppedServers, one)
		}
	}
	return ok(v)
}

func (h *Handler) listKeys(ctx context.Context, c *call) (reply, error) {
	if err := c.params.done(); err != nil {
		return reply{}, err
	}
	return h.keysReply(ctx, h.Keys.Ring.State())
}

// rotateKeys advances a key rotation by one step: it announces the next key to agents, or starts to use it.
func (h *Handler) rotateKeys(ctx context.Context, c *call) (reply, error) {
	kind := keyring.Kind(c.subject("kind"))
	if err := c.params.done(); err != nil {
		return reply{}, err
	}
	var req v1.RotateRequest
	if err := c.decode(ctx, &req); err != nil {
		return reply{}, err
	}
	c.Audit.Detail, _ = json.Marshal(req) // it was decoded from JSON
	keep := time.Duration(req.KeepSeconds) * time.Second
	if req.KeepSeconds != 0 && (req.KeepSeconds < int64(leastKeep/time.Second) ||
		req.KeepSeconds > int64(mostKeep/time.Second)) {
		return reply{}, invalid("keep_seconds", "is %d: expected %d to %d, or 0 for the default", req.KeepSeconds,
			int64(leastKeep/time.Second), int64(mostKeep/time.Second))
	}
	if keep == 0 {
		keep = keyring.Keep
	}
	s, err := h.Keys.Ring.Announce(ctx, kind)
	if errors.Is(err, keyring.ErrUnderWay) {
		s, err = h.advanceKeys(ctx, kind, keep, req.Force)
	}
	if err != nil {
		return reply{}, keysProblem(err, kind)
	}
	return h.keysReply(ctx, s)
}

// advanceKeys starts to use the next key when the online agents know it.
func (h *Handler) advanceKeys(ctx context.Context, kind keyring.Kind, keep time.Duration,
	force bool,
) (keyring.State, error) {
	if v := h.viewKeys(h.Keys.Ring.State()); v.Reached < v.Online && !force {
		return keyring.State{},
			problemf(http.StatusConflict,
				"%d of %d online hosts have not received the next key yet: try again in some seconds, or force the rotation", v.Online-v.Reached, v.Online)
	}
	for _, k := range h.Keys.Ring.State().Keys[kind] {
		if k.Stage != keyring.Next || force {
			continue
		}
		others, err := h.Keys.Without(ctx, k.ID)
		if err != nil {
			return keyring.State{}, err
		}
		if len(others) > 0 {
			return keyring.State{},
				problemf(http.StatusConflict,
					"the next key is not on server %s: bring it there ('drover server keys export' here, "+
						"'drover server keys import' there), or force the rotation; a server without the next key continues with an older key", edge.Clip(strings.Join(others, ", ")))
		}
	}
	return h.Keys.Ring.Advance(ctx, kind, keep)
}

// dropKey discards a next key, or drops a former key.
func (h *Handler) dropKey(ctx context.Context, c *call) (reply, error) {
	kind, id := keyring.Kind(c.subject("kind")), c.r.PathValue("id")
	if err := c.params.done(); err != nil {
		return reply{}, err
	}
	c.Audit.Target = edge.Clip(string(kind) + " " + id)
	for _, k := range h.Keys.Ring.State().Keys[kind] {
		if k.ID != id {
			continue
		}
		var err error
		switch k.Stage {
		case keyring.Next:
			_, err = h.Keys.Ring.Withdraw(ctx, kind)
		case keyring.Former:
			_, err = h.Keys.Ring.Retire(ctx, kind, id)
		case keyring.Present:
			err = problemf(http.StatusConflict, "%s is the present key: rotate it first", id)
		}
		if err != nil {
			return reply{}, keysProblem(err, kind)
		}
		return reply{status: http.StatusNoContent}, nil
	}
	return reply{}, problemf(http.StatusNotFound, "there is no %s key %q", edge.Clip(string(kind)), edge.Clip(id))
}

func keysProblem(err error, kind keyring.Kind) error {
	if p, ok := errors.AsType[*problem](err); ok {
		return p
	}
	switch {
	case errors.Is(err, keyring.ErrNoKind):
		return problemf(http.StatusNotFound,
			"unknown kind of key %q: expected manifest, sealing, ca, agent-signer, proxy-signer or server-signer; drover dev has no ca", edge.Clip(string(kind)))
	case errors.Is(err, keyring.ErrNotHeld), errors.Is(err, keyring.ErrNoNext), errors.Is(err, keyring.ErrNoSuch),
		errors.Is(err, keyring.ErrChanged):
		return problemf(http.StatusConflict, "%v", err)
	}
	return failure("change the keys", err)
}

// createDevice begins the sign-in of a command line. It grants nothing, so only a rejection has an audit row.
func (h *Handler) createDevice(ctx context.Context, c *call) (reply, error) {
	if err := h.limited(c, h.devices, "too many sign-ins began at this address"); err != nil {
		return reply{}, err
	}
	h.devices.Note(c.Address, h.Now())
	var req v1.DeviceRequest
	if err := c.small(&req); err != nil {
		return reply{}, err
	}
	switch {
	case h.Console() == "":
		return reply{}, problemf(http.StatusConflict, "this server serves no console, where a person could confirm the sign-in")
	case req.Name == "":
		return reply{}, invalid("name", "is empty")
	case len(req.Name) > maxDeviceName:
		return reply{}, invalid("name", "is %d bytes long: expected at most %d", len(req.Name), maxDeviceName)
	case strings.ToValidUTF8(req.Name, "\x00") != req.Name ||
		strings.ContainsFunc(req.Name, func(r rune) bool { return !unicode.IsPrint(r) }):
		return reply{}, invalid("name", "holds a character that cannot be shown")
	}
	token, hash := access.NewToken()
	code, codeHash := access.NewCode()
	now := h.Now()
	d := store.Device{
		Hash: hash, Code: codeHash, Name: req.Name, Remote: c.Audit.Remote, Created: now, Expires: now.Add(deviceTime),
	}
	switch err := h.Devices.CreateDevice(ctx, d); {
	case errors.Is(err, store.ErrTooManyDevices):
		return reply{}, busy(store.ErrTooManyDevices.Error(), 60)
	case err != nil:
		return reply{}, failure("begin the sign-in", err)
	}
	c.Audited = true
	return reply{status: http.StatusCreated, body: v1.Device{
		Code: code, Path: DevicePath, Token: token, ExpiresAt: d.Expires, Interval: deviceInterval,
	}}, nil
}

// deviceState tells a command line whether a person has signed it in. The call has no audit row: command lines repeat
// it all the time, and the sign-in itself has a row.
func (h *Handler) deviceState(ctx context.Context, c *call) (reply, error) {
	c.Audited = true
	if err := h.limited(c, h.lost, "this address asked for too many sign-ins that do not exist"); err != nil {
		return reply{}, err
	}
	var req v1.DeviceStateRequest
	if err := c.small(&req); err != nil {
		return reply{}, err
	}
	hash := access.HashToken(req.Token)
	t, _, err := h.Tokens.FindToken(ctx, hash)
	if err == nil && t.Kind == store.CLIToken && t.Valid(h.Now()) {
		return ok(v1.DeviceState{State: v1.DeviceSignedIn, User: t.User, ExpiresAt: given(t.Expires)})
	}
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return reply{}, failure("read the sign-in", err)
	}
	d, err := h.Devices.FindDevice(ctx, hash)
	switch {
	case errors.Is(err, store.ErrNotFound) || err == nil && !h.Now().Before(d.Expires):
		h.lost.Note(c.Address, h.Now())
		return reply{}, problemf(http.StatusNotFound, "the person has rejected the sign-in, or its time is over")
	case err != nil:
		return reply{}, failure("read the sign-in", err)
	}
	return ok(v1.DeviceState{State: v1.DevicePending})
}

// endSignIn ends the token of the command line that makes the call.
func (h *Handler) endSignIn(ctx context.Context, c *call) (reply, error) {
	if err := c.params.done(); err != nil {
		return reply{}, err
	}
	c.Audit.Target = c.Principal.User
	hash := access.HashToken(c.token)
	t, _, err := h.Tokens.FindToken(ctx, hash)
	switch {
	case errors.Is(err, store.ErrNotFound) || err == nil && t.Kind != store.CLIToken:
		return reply{}, problemf(http.StatusConflict, "the caller is not signed in by 'drover login URL'")
	case err != nil:
		return reply{}, failure("read the sign-in", err)
	}
	if _, err := h.Tokens.TakeToken(ctx, hash, nil); err != nil && !errors.Is(err, store.ErrNotFound) {
		return reply{}, failure("end the sign-in", err)
	}
	return reply{status: http.StatusNoContent}, nil
}
