package server

import (
	"context"
	"errors"
	"fmt"
	"time"

	"drover/internal/server/access"
	"drover/internal/server/store"
)

// firstAppCode is the code of the app that is made when nobody names one.
const firstAppCode = "drover-admin"

// FirstApp makes the first app if there is none yet, with the given credentials or, when code is empty, with generated
// ones; it may do everything. FirstApp returns them; made is false, and the secret empty, when there was an app
// already: a secret is kept as a hash only and can never be shown again.
func (s *Server) FirstApp(ctx context.Context, code,
	secret string,
) (usedCode, usedSecret string, made bool, err error) {
	n, err := s.store.CountApps(ctx)
	if err != nil {
		return "", "", false, err
	}
	if n > 0 {
		return firstAppCode, "", false, nil
	}
	if code == "" {
		code, secret = firstAppCode, access.NewSecret()
	}
	now := time.Now()
	err = s.store.CreateApp(ctx, store.App{
		Code: code, Note: "made at the first start",
		Secrets:      []store.Secret{{ID: "first", Hash: s.secrets.Hash(secret), Created: now}},
		MayNameUsers: true, Admin: true,
		Created: now, Changed: now,
	})
	if errors.Is(err, store.ErrExists) { // another server has been started at the same time
		return firstAppCode, "", false, nil
	}
	if err != nil {
		return "", "", false, fmt.Errorf("cannot store the first app: %w", err)
	}
	return code, secret, true, nil
}
