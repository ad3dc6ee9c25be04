package call

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"net/http"

	"drover/internal/server/access"
	"drover/internal/server/edge"
	"drover/internal/server/gate"
)

// operatorKey is the context key of the operator.
type operatorKey struct{}

// WithOperator marks the calls of a connection as calls of an operator of this machine, whom the kernel has
// authenticated. They bypass the gate.
func WithOperator(ctx context.Context, who access.Principal) context.Context {
	return context.WithValue(ctx, operatorKey{}, who)
}

// consoleKey is the context key of a call in the console.
type consoleKey struct{}

// WithConsole marks a call that a person makes in the console, for a reason in the person's own words.
func WithConsole(ctx context.Context, reason string) context.Context {
	return context.WithValue(ctx, consoleKey{}, &edge.Console{Reason: edge.Clip(reason)})
}

// renewalKey is the context key of a renewal.
type renewalKey struct{}

// WithRenewal marks a call that repeats an earlier read for a page that renews itself. A successful read of that kind
// has no audit row.
func WithRenewal(ctx context.Context) context.Context {
	return context.WithValue(ctx, renewalKey{}, true)
}

// credentials is the value of X-Bkapi-Authorization, the header that the compatible calls accept too.
type credentials struct {
	AppCode   string `json:"bk_app_code"`
	AppSecret string `json:"bk_app_secret"`
	User      string `json:"bk_username"`
	Token     string `json:"bk_token"`
}

// admit identifies the caller and stores it in the call. The caller of admit must call leave at the end of the call.
func (k *Kernel) admit(ctx context.Context, c *Call) (leave func(), err error) {
	if err := k.Authenticate(ctx, c); err != nil {
		return nil, err
	}
	if c.Principal.App == "" { // the operator of this machine
		return func() {}, nil
	}
	leave, usage, verdict := k.Gate.Enter(c.Principal)
	switch verdict {
	case gate.TooOften:
		return nil, Busy("the app calls more often than its limit", int(math.Ceil(usage.Reset.Seconds())))
	case gate.TooMany:
		return nil, Busy("the app has as many calls under way as its limit", 1)
	default:
		return leave, nil
	}
}

// Authenticate authenticates the caller by the credentials of the call, and stores the caller in the call.
func (k *Kernel) Authenticate(ctx context.Context, c *Call) error {
	if operator, ok := ctx.Value(operatorKey{}).(access.Principal); ok {
		c.Principal, c.Audit.App, c.Audit.User = operator, operator.App, operator.User
		return nil
	}
	var given credentials
	if text := c.Request.Header.Get("X-Bkapi-Authorization"); text == "" {
		return Problemf(http.StatusUnauthorized, "no credentials: expected them in X-Bkapi-Authorization")
	} else if err := json.Unmarshal([]byte(text), &given); err != nil {
		return Problemf(http.StatusUnauthorized, "X-Bkapi-Authorization is not a JSON object of strings")
	}
	err := k.Identify(ctx, c.Call, gate.Credentials{
		AppCode: given.AppCode, AppSecret: given.AppSecret, User: given.User, Token: given.Token,
	})
	if err == nil {
		if given.AppCode == "" {
			c.UserToken = given.Token
		}
		return nil
	}
	refusal, ok := errors.AsType[*gate.Refusal](err)
	switch {
	case !ok:
		return Failure("check the credentials", err)
	case refusal.Reason == gate.Guessing:
		return Busy("too many wrong secrets came from this address", 5)
	case refusal.Cause != nil:
		return Failure("check the user's token", refusal.Cause)
	case refusal.Reason == gate.NoAppCode && given.Token != "":
		return Problemf(http.StatusUnauthorized,
			"the token of the user is not one of drover: expected one of 'drover user', or an app beside the token")
	}
	return Problemf(http.StatusUnauthorized, "%s", denial(refusal.Reason))
}

// denial returns the text for a caller whose authentication was rejected. A wrong secret has the same answer as an
// unknown app.
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
		return "bk_token is unknown, has expired, or has ended because its user was disabled meanwhile"
	case gate.UserDisabled:
		return "the user is disabled"
	default:
		return "app code or secret is wrong"
	}
}
