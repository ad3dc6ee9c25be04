package accounts

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"time"

	v1 "drover/api/v1"
	"drover/internal/server/access"
	"drover/internal/server/api/call"
	"drover/internal/server/edge"
	"drover/internal/server/store"
	"drover/internal/words"
)

// linkTime is how long a link can sign a browser in.
const linkTime = 10 * time.Minute

// CreateSignIn makes a link that signs a browser in as the caller, or as the user that an administrator names.
func (h *Handler) CreateSignIn(ctx context.Context, c *call.Call) (call.Reply, error) {
	var req v1.SignInRequest
	if err := c.Decode(ctx, &req); err != nil {
		return call.Reply{}, err
	}
	c.Audit.Target = edge.Clip(cmp.Or(req.User, c.Principal.User))
	s, err := h.SignIn(ctx, &c.Principal, req.User)
	if err != nil {
		return call.Reply{}, err
	}
	return call.Reply{Status: http.StatusCreated, Body: s}, nil
}

// SignIn makes a link that signs a browser in as a user; an empty name means the caller. The operator of the server's
// machine becomes a user with every right. The error is a problem for the caller.
func (h *Handler) SignIn(ctx context.Context, who *access.Principal, name string) (v1.SignIn, error) {
	console := h.Console()
	switch {
	case console == "":
		return v1.SignIn{}, call.Problemf(http.StatusConflict, "this server serves no console")
	case !who.Proven:
		return v1.SignIn{}, call.Problemf(http.StatusForbidden, "user %q is not proven: call with a token of the user", who.User)
	case who.App != "" && !access.IsPersonApp(who.App) && !who.Admin: // an app must not become the user who calls it
		return v1.SignIn{}, call.Problemf(http.StatusForbidden, "an app may not sign in a user: expected a token of the user, "+
			"and no app")
	case name != "" && name != who.User && !who.Admin:
		return v1.SignIn{}, call.Problemf(http.StatusForbidden, "only an administrator may sign in another user")
	}
	if name = cmp.Or(name, who.User); name == who.User && who.App == "" {
		err := h.Users.CreateUser(ctx, store.User{
			Name: name, Note: words.OperatorNote.In(words.English), Admin: true, Created: h.Now(),
		})
		if err != nil && !errors.Is(err, store.ErrExists) {
			return v1.SignIn{}, call.Failure("create the user", err)
		}
	}
	if u, err := h.Users.GetUser(ctx, name); err != nil {
		return v1.SignIn{}, call.StoreProblem(err, "user", name)
	} else if u.Disabled {
		return v1.SignIn{}, call.Problemf(http.StatusConflict, "user %q is disabled", name)
	}
	token, hash := access.NewToken()
	now := h.Now()
	t := store.Token{
		ID: newID(), Kind: store.Link, User: name, Hash: hash, Created: now, Expires: now.Add(linkTime), Via: who.Via,
	}
	if err := h.Tokens.CreateToken(ctx, t); err != nil {
		return v1.SignIn{}, call.StoreProblem(err, "user", name)
	}
	return v1.SignIn{User: name, URL: console + "login#" + token, ExpiresAt: t.Expires}, nil
}

// EndSignIn ends the token of the command line that makes the call.
func (h *Handler) EndSignIn(ctx context.Context, c *call.Call) (call.Reply, error) {
	if err := c.Params.Done(); err != nil {
		return call.Reply{}, err
	}
	c.Audit.Target = c.Principal.User
	hash := access.HashToken(c.UserToken)
	t, _, err := h.Tokens.FindToken(ctx, hash)
	switch {
	case errors.Is(err, store.ErrNotFound) || err == nil && t.Kind != store.CLIToken:
		return call.Reply{}, call.Problemf(http.StatusConflict, "the caller is not signed in by 'drover login URL'")
	case err != nil:
		return call.Reply{}, call.Failure("read the sign-in", err)
	}
	if _, err := h.Tokens.TakeToken(ctx, hash, nil); err != nil && !errors.Is(err, store.ErrNotFound) {
		return call.Reply{}, call.Failure("end the sign-in", err)
	}
	return call.Reply{Status: http.StatusNoContent}, nil
}
