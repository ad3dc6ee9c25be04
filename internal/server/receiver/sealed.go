package receiver

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"drover/internal/server/keyring"
	"drover/internal/server/store"
)

// Sealed is a store in which the secrets of receivers are sealed. Its methods take and return the secrets in clear. A
// reader of the database who does not have the keys of the fleet cannot forge alarms.
type Sealed struct {
	store.Store
	secrets func() ([][]byte, error)
}

// NewSealed returns a store that seals with the secrets of the fleet (keyring.OpenVault).
func NewSealed(s store.Store, secrets func() ([][]byte, error)) *Sealed { return &Sealed{s, secrets} }

func (h *Sealed) seal(w store.Receiver) (store.Receiver, error) {
	if w.Secret == "" {
		return w, nil
	}
	vault, err := keyring.OpenVault(h.secrets)
	if err != nil {
		return w, fmt.Errorf("cannot seal secret: %w", err)
	}
	w.Secret = vault.Seal([]byte(w.Secret), w.Name)
	return w, nil
}

// open returns a receiver with its secret. former says that a former key has sealed the secret. If no key on this
// server opens the secret, the result is a secret that no receiver accepts.
func (h *Sealed) open(w store.Receiver) (opened store.Receiver, former bool) {
	if w.Secret == "" {
		return w, false
	}
	vault, err := keyring.OpenVault(h.secrets)
	var secret []byte
	if err == nil {
		secret, former, err = vault.Open(w.Secret, w.Name)
	}
	if err != nil {
		lost := sha256.Sum256([]byte(w.Secret))
		secret = []byte(hex.EncodeToString(lost[:]))
	}
	w.Secret = string(secret)
	return w, former
}

// Renew seals the secrets anew that a former key has sealed. Call it after a change of the keys of the fleet, before
// the former key is dropped.
func (h *Sealed) Renew(ctx context.Context) error {
	list, err := h.Store.ListReceivers(ctx)
	if err != nil {
		return err
	}
	for _, s := range list {
		if _, former := h.open(s.Receiver); !former {
			continue
		}
		if _, err := h.ChangeReceiver(ctx, s.Receiver.Name, func(*store.Receiver) error { return nil }); err != nil {
			return err
		}
	}
	return nil
}

// CreateReceiver implements store.Receivers, as all that follows.
func (h *Sealed) CreateReceiver(ctx context.Context, w store.Receiver, after int64) error {
	sealed, err := h.seal(w)
	if err != nil {
		return err
	}
	return h.Store.CreateReceiver(ctx, sealed, after)
}

// ChangeReceiver hands the receiver over with its secret. A secret that this server cannot open stays as it is, unless
// it is changed: the key may be on another server.
func (h *Sealed) ChangeReceiver(ctx context.Context, name string,
	change func(*store.Receiver) error,
) (store.Subscription, error) {
	s, err := h.Store.ChangeReceiver(ctx, name, func(w *store.Receiver) error {
		stored := w.Secret
		opened, former := h.open(*w)
		secret := opened.Secret
		opened.Name = name
		if err := change(&opened); err != nil {
			return err
		}
		if opened.Secret == secret && !former {
			opened.Secret = stored
			*w = opened
			return nil
		}
		sealed, err := h.seal(opened)
		*w = sealed
		return err
	})
	s.Receiver, _ = h.open(s.Receiver)
	return s, err
}

// GetReceiver returns the receiver with its secret.
func (h *Sealed) GetReceiver(ctx context.Context, name string) (store.Subscription, error) {
	s, err := h.Store.GetReceiver(ctx, name)
	s.Receiver, _ = h.open(s.Receiver)
	return s, err
}

// ListReceivers returns the receivers with their secrets.
func (h *Sealed) ListReceivers(ctx context.Context) ([]store.Subscription, error) {
	list, err := h.Store.ListReceivers(ctx)
	for i := range list {
		list[i].Receiver, _ = h.open(list[i].Receiver)
	}
	return list, err
}
