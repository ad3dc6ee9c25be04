package server

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"time"

	"drover/internal/server/httpapi"
	"drover/internal/server/store"
)

// firstAppCode is the code of the app that is made when nobody names one.
const firstAppCode = "drover-admin"

// FirstApp makes the first app if there is none yet, with the given credentials or, when code is empty, with generated
// ones. It returns them; made is false, and the secret empty, when there was an app already: a secret is kept as a hash
// only and can never be shown again.
func (s *Server) FirstApp(ctx context.Context, code, secret string) (usedCode, usedSecret string, made bool, err error) {
	n, err := s.store.CountApps(ctx)
	if err != nil {
		return "", "", false, err
	}
	if n > 0 {
		return firstAppCode, "", false, nil
	}
	if code == "" {
		var random [24]byte
		_, _ = rand.Read(random[:]) // it never fails
		code, secret = firstAppCode, hex.EncodeToString(random[:])
	}
	hash, err := httpapi.HashSecret(secret)
	if err != nil {
		return "", "", false, err
	}
	err = s.store.PutApp(ctx, store.App{Code: code, SecretHash: hash, MayNameUsers: true, Created: time.Now()})
	if err != nil {
		return "", "", false, fmt.Errorf("cannot store the first app: %w", err)
	}
	return code, secret, true, nil
}
