package enrol

import (
	"context"
	"errors"
	"strings"
	"time"

	"drover/internal/config/settings"
	"drover/internal/server/store"
	"drover/internal/wire"
)

// Proxies is the register of proxies, and issues their enrolments.
type Proxies interface {
	// Admit stores a proxy as store.Proxies has it.
	Admit(ctx context.Context, p store.Proxy, check func(t store.JoinToken, again bool) error) error
	// Remove deletes a proxy; store.ErrNotFound for an unknown one.
	Remove(ctx context.Context, key string, at time.Time) error
	// Issue makes the enrolment with which a proxy serves its area, with a certificate for the key of a request in DER.
	Issue(p store.Proxy, certificate []byte) (wire.ProxyEnrolment, error)
}

// admitProxy admits a proxy.
func (e *Enroller) admitProxy(
	ctx context.Context, r wire.JoinRequest, token store.JoinToken, now time.Time,
) (any, error) {
	if err := fitProxy(r.Proxy); err != nil {
		return nil, err
	}
	p := store.Proxy{
		Key: r.Key, Area: token.Cloud, Name: r.Proxy.Name, Advertise: r.Proxy.Advertise, Build: clip(r.Build),
		Sealing: r.Sealing, Token: token.ID, Created: now,
	}
	// This comes first, because it needs no stored data and a proxy must have a certificate.
	enrolment, err := e.Proxies.Issue(p, r.Proxy.Certificate)
	if err != nil {
		return nil, refuse(Unfit, "%v", err)
	}
	err = e.Proxies.Admit(ctx, p, func(t store.JoinToken, again bool) error { return ended(t, again, now) })
	switch {
	case errors.Is(err, store.ErrExists):
		return nil,
			refuse(Taken,
				"another proxy has the name %q: remove that proxy ('drover proxies remove'), or join with another --name", p.Name)
	case errors.Is(err, store.ErrKeyUsed):
		return nil,
			refuse(Taken,
				"this identity belongs or belonged to an agent, or to a proxy of another area: join with an empty data directory")
	case errors.Is(err, store.ErrNotFound):
		return nil, unknown()
	case err != nil:
		return nil, err
	}
	// The key may have been removed before.
	if err := e.Broker.Restore(p.Key); err != nil {
		return nil, err
	}
	return enrolment, nil
}

// fitProxy rejects a proxy with an address or name that agents cannot use.
func fitProxy(p *wire.ProxyFacts) error {
	strange := func(r rune) bool { return (r < '0' || r > '9') && (r < 'a' || r > 'z') && r != '-' && r != '.' }
	if p.Name == "" || len(p.Name) > maxID || strings.ContainsFunc(p.Name, strange) {
		return refuse(Unfit, "--name %q: expected 1 to %d lower-case letters, digits, dots and dashes", clip(p.Name),
			maxID)
	}
	if len(p.Advertise) > maxText || strings.ContainsRune(p.Advertise, ',') {
		return refuse(Unfit, "--advertise %q: expected HOST:PORT by which the agents of the area reach the proxy",
			clip(p.Advertise))
	}
	if err := settings.Advertised("--advertise", p.Advertise, "10.1.0.2:7351"); err != nil {
		return refuse(Unfit, "%v", err)
	}
	return nil
}

// RemoveProxy removes a proxy: the broker disconnects it at once and rejects it when it reconnects, and its agents get
// other addresses. It returns store.ErrNotFound for an unknown proxy.
func (e *Enroller) RemoveProxy(ctx context.Context, key string) error {
	if err := e.Proxies.Remove(ctx, key, e.Now()); err != nil {
		return err
	}
	return e.Broker.Revoke(key)
}
