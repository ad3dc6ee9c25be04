package apiv1

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"net/http"

	"drover/internal/server/access"
	"drover/internal/server/gate"
)

// credentials is the value of X-Bkapi-Authorization, the header that the compatible calls take too.
type credentials struct {
	AppCode   string `json:"bk_app_code"`
	AppSecret string `json:"bk_app_secret"`
	User      string `json:"bk_username"`
	Token     string `json:"bk_token"`
}

// admit finds out who calls, and enters it into the call. Leave is called when the call has ended.
func (h *Handler) admit(ctx context.Context, c *call) (leave func(), err error) {
	if err := h.identify(ctx, c); err != nil {
		return nil, err
	}
	if c.Principal.App == "" { // the operator of this machine
		return func() {}, nil
	}
	leave, usage, verdict := h.Gate.Enter(c.Principal)
	switch verdict {
	case gate.TooOften:
		return nil, busy("the app calls more often than its limit", int(math.Ceil(usage.Reset.Seconds())))
	case gate.TooMany:
		return nil, busy("the app has as many calls under way as its limit", 1)
	default:
		return leave, nil
	}
}

// identify finds out who calls by the credentials of the call, and enters the caller into the call.
func (h *Handler) identify(ctx context.Context, c *call) error {
	if operator, ok := ctx.Value(operatorKey{}).(access.Principal); ok {
		c.Principal, c.Audit.App, c.Audit.User = operator, operator.App, operator.User
		return nil
	}
	var given credentials
	if text := c.r.Header.Get("X-Bkapi-Authorization"); text == "" {
		return problemf(http.StatusUnauthorized, "no credentials: expected them in X-Bkapi-Authorization")
	} else if err := json.Unmarshal([]byte(text), &given); err != nil {
		return problemf(http.StatusUnauthorized, "X-Bkapi-Authorization is not a JSON object of strings")
	}
	err := h.Identify(ctx, c.Call, gate.Credentials{
		AppCode: given.AppCode, AppSecret: given.AppSecret, User: given.User, Token: given.Token,
	})
	if err == nil {
		return nil
	}
	refusal, ok := errors.AsType[*gate.Refusal](err)
	switch {
	case !ok:
		return failure("check the credentials", err)
	case refusal.Reason == gate.Guessing:
		return busy("too many wrong secrets came from this address", 5)
	case refusal.Cause != nil:
		return failure("check the user's token", refusal.Cause)
	}
	return problemf(http.StatusUnauthorized, "%s", denial(refusal.Reason))
}

// busy says that an app asks for more than its limits, and when to come back, in seconds.
func busy(reason string, after int) error {
	p := problemf(http.StatusTooManyRequests, "%s", reason)
	p.retryAfter = max(after, 1)
	return p
}

// denial says why a caller is not let in. A wrong secret is answered like an unknown app.
func denial(r gate.Reason) string {
	switch r {
	case gate.NoAppCode:
		return "bk_app_code is missing"
	case gate.NoSecret, gate.OnlyAccessToken, gate.OnlySignature:
		return "bk_app_secret is missing"
	case gate.AppDisabled:
		return "the app is disabled"
	case gate.NoUser:
		return "no user is given: expected bk_username or bk_token"
	case gate.MayNotName:
		return "the app may not name users: expected bk_token"
	case gate.UserTooLong:
		return "bk_username is too long"
	case gate.UserUnfit:
		return "bk_username holds a control character or is not valid UTF-8"
	case gate.BadToken:
		return "bk_token is unknown or has expired"
	case gate.UserDisabled:
		return "the user is disabled"
	default:
		return "app code or secret is wrong"
	}
}
