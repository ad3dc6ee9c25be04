package accounts

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"time"

	v1 "drover/api/v1"
	"drover/internal/server/access"
	"drover/internal/server/api/call"
	"drover/internal/server/edge"
	"drover/internal/server/store"
)

func (h *Handler) viewUser(u store.User) v1.User {
	grants := func(list []access.Grant) []v1.Grant {
		return call.Viewed(list, func(g access.Grant) v1.Grant { return v1.Grant(g) })
	}
	v := v1.User{
		Name: u.Name, Note: u.Note, Disabled: u.Disabled, Admin: u.Admin, Grants: grants(u.Grants),
		CreatedAt: u.Created,
	}
	if len(u.Groups) > 0 {
		r := h.Groups.Of(u.Groups)
		v.Provider = &v1.ProviderRights{Groups: u.Groups, Admin: r.Admin, Grants: grants(r.Grants)}
	}
	return v
}

// userChange returns the function that applies a change to a user. The change must be valid.
func userChange(r *v1.UserChange) (change func(*store.User), err error) {
	grants, err := grantsOf(r.Grants)
	if err != nil {
		return nil, err
	}
	return func(u *store.User) {
		call.Assign(&u.Note, r.Note)
		call.Assign(&u.Disabled, r.Disabled)
		call.Assign(&u.Admin, r.Admin)
		call.Assign(&u.Grants, grants)
	}, nil
}

// grantsOf checks the rights in a change; nil changes nothing.
func grantsOf(given *[]v1.Grant) (*[]access.Grant, error) {
	if given == nil {
		return nil, nil //nolint:nilnil // there is nothing to change
	}
	list := call.Viewed(*given, func(g v1.Grant) access.Grant { return access.Grant(g) })
	if n := len(list); n > access.MaxGrants {
		return nil, call.Invalid("grants", "has %d entries: expected at most %d", n, access.MaxGrants)
	}
	var faults []error
	for i := range list {
		list[i].Until = list[i].Until.UTC().Truncate(time.Second)
		for _, err := range list[i].Faults() {
			faults = append(faults, call.InvalidPart(fmt.Sprintf("grants[%d].", i), "", err))
		}
	}
	return &list, call.Together(faults...)
}

// CreateUser creates a user.
func (h *Handler) CreateUser(ctx context.Context, c *call.Call) (call.Reply, error) {
	var req v1.UserChange
	var change func(*store.User)
	check := func() (err error) {
		change, err = userChange(&req)
		return call.Together(call.CheckName("name", req.Name, access.MaxUser), err)
	}
	if err := c.Decode(ctx, &req, check); err != nil {
		return call.Reply{}, err
	}
	c.Audit.Target = edge.Clip(req.Name)
	if err := check(); err != nil {
		return call.Reply{}, err
	}
	c.Audit.Detail, _ = json.Marshal(req) // it was decoded from JSON, and holds no secret
	u := store.User{Name: req.Name, Created: h.Now()}
	change(&u)
	if err := stillToCome(nil, u.Grants, u.Created); err != nil {
		return call.Reply{}, err
	}
	if err := h.Users.CreateUser(ctx, u); err != nil {
		return call.Reply{}, call.StoreProblem(err, "user", u.Name)
	}
	location := "/users/" + url.PathEscape(u.Name)
	return call.Reply{Status: http.StatusCreated, Body: h.viewUser(u), Location: location}, nil
}

// ListUsers lists the users.
func (h *Handler) ListUsers(ctx context.Context, c *call.Call) (call.Reply, error) {
	var after string
	limit, err := c.Params.Page(&after)
	if err != nil {
		return call.Reply{}, err
	}
	users, err := h.Users.ListUsers(ctx, after, limit)
	if err != nil {
		return call.Reply{}, call.Failure("list the users", err)
	}
	return call.OK(call.PageOfRows(c, users, limit, h.viewUser, func(u store.User) any { return u.Name }))
}

// GetUser shows a user.
func (h *Handler) GetUser(ctx context.Context, c *call.Call) (call.Reply, error) {
	name := c.Subject("name")
	if err := c.Params.Done(); err != nil {
		return call.Reply{}, err
	}
	u, err := h.Users.GetUser(ctx, name)
	if err != nil {
		return call.Reply{}, call.StoreProblem(err, "user", name)
	}
	return call.OK(h.viewUser(u))
}

// ChangeUser changes the given fields.
func (h *Handler) ChangeUser(ctx context.Context, c *call.Call) (call.Reply, error) {
	name := c.Subject("name")
	var req v1.UserChange
	if err := c.Decode(ctx, &req); err != nil {
		return call.Reply{}, err
	}
	if req.Name != "" && req.Name != name {
		return call.Reply{}, call.Invalid("name", "cannot be changed")
	}
	change, err := userChange(&req)
	if err != nil {
		return call.Reply{}, err
	}
	c.Audit.Detail, _ = json.Marshal(req) // it was decoded from JSON, and holds no secret
	u, err := h.Users.ChangeUser(ctx, name, func(u *store.User) error {
		before := u.Grants
		change(u)
		return stillToCome(before, u.Grants, h.Now())
	})
	if err != nil {
		return call.Reply{}, call.StoreProblem(err, "user", name)
	}
	return call.OK(h.viewUser(u))
}
