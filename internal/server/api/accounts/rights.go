package accounts

import (
	"context"
	"net/http"
	"slices"
	"strings"

	v1 "drover/api/v1"
	"drover/internal/server/access"
	"drover/internal/server/api/call"
	"drover/internal/server/api/hosts"
	"drover/internal/server/edge"
	"drover/internal/server/gate"
)

// CheckRight says whether the caller, or a user, may do an operation, and by which rights.
func (h *Handler) CheckRight(ctx context.Context, c *call.Call) (call.Reply, error) {
	p := &c.Params
	user, op, subject, name := p.Text("user"), access.Operation(p.Text("operation")), p.Text("process"), p.Text("host")
	targets := p.Number("targets", 1, call.MaxItems)
	if !slices.Contains(access.Operations(), op) {
		p.Fail(call.Invalid("operation", "is %.40q: expected the name of an operation, such as restart", string(op)))
	}
	namespace, rest, whole := strings.Cut(subject, "/")
	switch {
	case op.OfHosts() && subject != "":
		p.Fail(call.Invalid("process", "is %.100q: the operation is one on hosts, expected no process", subject))
	case !op.OfHosts() && (!whole || namespace == "" || rest == ""):
		p.Fail(call.Invalid("process", "is %.100q: expected NAMESPACE/NAME", subject))
	}
	if err := p.Done(); err != nil {
		return call.Reply{}, err
	}
	c.Audit.Target = edge.Clip(strings.TrimSpace(user + " " + string(op) + " " + subject))
	who, disabled, err := h.subjectOf(ctx, c, user)
	if err != nil {
		return call.Reply{}, err
	}
	who.Targets = targets
	var host *access.Host
	if name != "" {
		a, found := h.Directory.LookupID(name)
		at := hosts.NamedHost(name)
		if found {
			at = gate.Host(a)
		} else if c.Principal.Admin {
			return call.Reply{}, call.Problemf(http.StatusNotFound, "there is no host %q", name)
		}
		host = &at
	}
	giving, short := who.Giving(op, namespace, host)
	grants := func(list []access.Grant) []v1.Grant {
		return call.Viewed(list, func(g access.Grant) v1.Grant { return v1.Grant(g) })
	}
	v := v1.RightCheck{
		User: who.User, Allowed: !disabled && (who.Admin || len(giving) > 0), Disabled: disabled, Admin: who.Admin,
		Grants: grants(giving), Short: grants(short),
	}
	if who.App != "" && !access.IsPersonApp(who.App) {
		v.User, v.App = "", who.App
	}
	return call.OK(v)
}

// subjectOf returns the principal whose rights are checked: the caller, or the user with a name. Only an administrator
// may name another user.
func (h *Handler) subjectOf(
	ctx context.Context, c *call.Call, name string,
) (who access.Principal, disabled bool, err error) {
	p := c.Principal
	if name == "" || p.Proven && p.User == name && p.App == access.PersonApp(name) {
		return p, false, nil
	}
	if !p.Admin {
		return who, false, call.Problemf(http.StatusForbidden, "%s is not an administrator, and may only see own rights", p.Who())
	}
	u, err := h.Users.GetUser(ctx, name)
	if err != nil {
		return who, false, call.StoreProblem(err, "user", name)
	}
	return gate.PrincipalOf(u, h.Groups, h.Now()), u.Disabled, nil
}
