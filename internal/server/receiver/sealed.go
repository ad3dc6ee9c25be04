package receiver

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strings"

	"drover/internal/server/store"
)

// Sealed is a store in which the secrets of receivers are sealed. Its methods take and return the secrets in clear. A
// reader of the database who does not have the key cannot forge alarms.
type Sealed struct {
	store.Store
	aead cipher.AEAD
}

// sealMark is the prefix of a sealed secret. A secret from an earlier version is not sealed until it is changed.
const sealMark = "sealed1:"

// NewSealed returns a store that seals with a key of 16, 24 or 32 bytes.
func NewSealed(s store.Store, key []byte) (*Sealed, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, fmt.Errorf("cannot seal secrets: %w", err)
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return nil, fmt.Errorf("cannot seal secrets: %w", err)
	}
	return &Sealed{s, aead}, nil
}

func (h *Sealed) seal(w store.Receiver) store.Receiver {
	if w.Secret == "" {
		return w
	}
	//nolint:gosec // this AEAD creates a random nonce itself
	w.Secret = sealMark + base64.RawStdEncoding.EncodeToString(h.aead.Seal(nil, nil, []byte(w.Secret), []byte(w.Name)))
	return w
}

// open returns a receiver with its secret. If the keys of another fleet sealed the secret, because the database was
// adopted, the result is a secret that no receiver accepts, until it is changed.
func (h *Sealed) open(w store.Receiver) store.Receiver {
	text, sealed := strings.CutPrefix(w.Secret, sealMark)
	if !sealed {
		return w
	}
	data, err := base64.RawStdEncoding.DecodeString(text)
	if err == nil {
		data, err = h.aead.Open(nil, nil, data, []byte(w.Name))
	}
	if err != nil {
		lost := sha256.Sum256([]byte(w.Secret))
		w.Secret = hex.EncodeToString(lost[:])
		return w
	}
	w.Secret = string(data)
	return w
}

// CreateReceiver implements store.Receivers, as all that follows.
func (h *Sealed) CreateReceiver(ctx context.Context, w store.Receiver, after int64) error {
	return h.Store.CreateReceiver(ctx, h.seal(w), after)
}

// ChangeReceiver hands the receiver over with its secret.
func (h *Sealed) ChangeReceiver(ctx context.Context, name string,
	change func(*store.Receiver) error,
) (store.Subscription, error) {
	s, err := h.Store.ChangeReceiver(ctx, name, func(w *store.Receiver) error {
		opened := h.open(*w)
		opened.Name = name
		if err := change(&opened); err != nil {
			return err
		}
		*w = h.seal(opened)
		return nil
	})
	s.Receiver = h.open(s.Receiver)
	return s, err
}

// GetReceiver returns the receiver with its secret.
func (h *Sealed) GetReceiver(ctx context.Context, name string) (store.Subscription, error) {
	s, err := h.Store.GetReceiver(ctx, name)
	s.Receiver = h.open(s.Receiver)
	return s, err
}

// ListReceivers returns the receivers with their secrets.
func (h *Sealed) ListReceivers(ctx context.Context) ([]store.Subscription, error) {
	list, err := h.Store.ListReceivers(ctx)
	for i := range list {
		list[i].Receiver = h.open(list[i].Receiver)
	}
	return list, err
}
