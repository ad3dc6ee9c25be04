package httpapi

import (
	"context"
	"errors"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"drover/internal/gse"
	"drover/internal/server/access"
	"drover/internal/server/gate"
)

// credentials are the credentials of a caller, under each of the accepted names.
type credentials struct {
	AppCode, AppCode1         gse.Str
	AppSecret, AppSecret1     gse.Str
	Username, Username1       gse.Str
	Operator                  gse.Str // from JOB's old paths
	Token                     gse.Str
	AccessToken, AccessToken1 gse.Str
	Signature, Signature1     gse.Str
}

// read reads an object; its fields override the fields read before.
func (c *credentials) read(object []byte) error {
	return gse.ReadTexts(object, map[string]*gse.Str{
		"bk_app_code": &c.AppCode, "app_code": &c.AppCode1,
		"bk_app_secret": &c.AppSecret, "app_secret": &c.AppSecret1,
		"bk_username": &c.Username, "username": &c.Username1,
		"operator":     &c.Operator,
		"bk_token":     &c.Token,
		"access_token": &c.AccessToken, "bk_access_token": &c.AccessToken1,
		"bk_signature": &c.Signature, "signature": &c.Signature1,
	})
}

// toGate returns the credentials to check.
func (c *credentials) toGate() gate.Credentials {
	return gate.Credentials{
		AppCode:     first(c.AppCode, c.AppCode1),
		AppSecret:   first(c.AppSecret, c.AppSecret1),
		User:        first(c.Username, c.Username1, c.Operator),
		Token:       c.Token.Text(),
		AccessToken: first(c.AccessToken, c.AccessToken1) != "",
		Signature:   first(c.Signature, c.Signature1) != "",
	}
}

// first returns the first value that is not empty.
func first(values ...gse.Str) string {
	for _, v := range values {
		if v.Text() != "" {
			return v.Text()
		}
	}
	return ""
}

// headCredentials reads the credentials from the headers of a request. If there are any, only they count, and the gate
// checks them before the body is read. On a backend's paths a trusted gateway has checked the caller and removed its
// secret, so the gateway's headers override all others.
func (s *server) headCredentials(r *http.Request, c *call) (creds gate.Credentials, present bool, err error) {
	if codes := r.Header.Values("Bk-App-Code"); len(codes) > 0 && c.family == direct && s.fromTrustedGateway(r) {
		users := r.Header.Values("Bk-Username")
		if len(codes) > 1 || len(users) > 1 { // one of them is not from the gateway
			return creds, true, refusef(badHeader, "request header Bk-App-Code or Bk-Username is there more than once")
		}
		creds = gate.Credentials{AppCode: codes[0], Vouched: true}
		if len(users) == 1 {
			creds.User = users[0]
		}
		return creds, true, nil
	}
	text := r.Header.Get("X-Bkapi-Authorization")
	if text == "" {
		return creds, false, nil
	}
	var read credentials
	if err := read.read([]byte(text)); err != nil || !strings.HasPrefix(strings.TrimLeft(text, " \t"), "{") {
		return creds, true, refusef(badHeader, "request header X-Bkapi-Authorization is not a JSON object")
	}
	return read.toGate(), true, nil
}

// fromTrustedGateway reports whether the peer itself is a trusted gateway. It ignores forwarding headers.
func (s *server) fromTrustedGateway(r *http.Request) bool {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return false
	}
	ip := peer.Addr().Unmap().WithZone("")
	return slices.ContainsFunc(s.TrustedGateways, func(p netip.Prefix) bool { return p.Contains(ip) })
}

// paramCredentials reads the credentials from the parameters, and those that they lack from the query.
func paramCredentials(params []byte, query url.Values) (gate.Credentials, error) {
	flat, err := fromForm(query)
	if err != nil {
		return gate.Credentials{}, err
	}
	var c credentials
	for _, source := range [][]byte{flat, params} { // the later one overwrites
		if err := c.read(source); err != nil {
			return gate.Credentials{}, wrongFormat(err)
		}
	}
	return c.toGate(), nil
}

// authenticate identifies the caller, checks its limits, and stores the principal in the call.
func (s *server) authenticate(ctx context.Context, w http.ResponseWriter, c *call, creds gate.Credentials) error {
	if err := s.Identify(ctx, c.Call, creds); err != nil {
		return c.notAdmitted(err, c.Audit.App)
	}
	p := c.Principal
	if !p.Admin && len(p.Grants) == 0 { // before it reads any input
		return refusef(forbidden, "app %s has no rights: grant rights with 'drover app grant'", p.App)
	}
	leave, usage, verdict := s.Gate.Enter(p)
	if leave != nil {
		c.AtEnd(leave)
	}
	if usage.Limit > 0 {
		w.Header().Set("X-Bkapi-RateLimit-Limit", strconv.Itoa(usage.Limit))
		w.Header().Set("X-Bkapi-RateLimit-Remaining", strconv.Itoa(usage.Remaining))
		w.Header().Set("X-Bkapi-RateLimit-Reset", strconv.Itoa(wholeSeconds(usage.Reset)))
	}
	switch verdict {
	case gate.TooOften:
		w.Header().Set("X-Bkapi-RateLimit-Plugin", "app-rate-limit")
		return refusef(tooOften, "API rate limit exceeded by app %s", p.App)
	case gate.TooMany:
		w.Header().Set("X-Bkapi-RateLimit-Plugin", "app-concurrency-limit")
		return refusef(tooMany, "Request concurrency exceeds the limit of app %s", p.App)
	case gate.Within:
	}
	return nil
}

func wholeSeconds(d time.Duration) int { return int((d + time.Second - 1) / time.Second) }

// notAdmitted returns the refusal of a caller that the gate rejected. app is the name that the caller gave.
func (c *call) notAdmitted(err error, app string) error {
	refused := (*gate.Refusal)(nil)
	if !errors.As(err, &refused) {
		return failure("check the credentials", err)
	}
	texts := deniedTexts()[refused.Reason]
	text := texts.esb
	if c.family == gateway && texts.gateway != "" {
		text = texts.gateway
	}
	var args []any
	switch refused.Reason {
	case gate.UserTooLong:
		args = []any{access.MaxUser}
	case gate.UnknownApp, gate.AppDisabled:
		if text == texts.esb {
			args = []any{app}
		}
	default:
	}
	r := refusef(denied, text, args...)
	switch refused.Reason {
	case gate.LoginDown:
		r.kind, r.cause = unavailable, refused.Cause
	case gate.Guessing:
		r.kind = tooOften
	default:
	}
	return r
}

// deniedText has the words of one family for a reason, and the other family's words if they differ.
type deniedText struct{ esb, gateway string }

// deniedTexts has a row for each reason. A gateway does not distinguish an unknown app from a wrong secret.
func deniedTexts() [gate.ReasonsEnd]deniedText {
	wrong := "bk_app_code or bk_app_secret is incorrect"
	return [...]deniedText{
		gate.NoAppCode: {"APP Code [bk_app_code] cannot be empty", "app code cannot be empty"},
		gate.NoSecret: {
			"APP Secret [bk_app_secret] cannot be empty",
			"please provide bk_app_secret or bk_signature to verify app",
		},
		gate.OnlyAccessToken: {
			"verify access_token failed, access tokens are not in use here, please provide bk_app_secret",
			"access_token is invalid, please provide bk_app_secret",
		},
		gate.OnlySignature: {
			"Signature [bk_signature] verification failed, signatures cannot be verified here, please provide bk_app_secret",
			"please provide bk_app_secret to verify app, bk_signature cannot be verified here",
		},
		gate.UnknownApp:  {"Invalid APP Code [bk_app_code=%s], please check", wrong},
		gate.WrongSecret: {"APP Secret verification failed, please check if the bk_app_secret is correct", wrong},
		gate.AppDisabled: {"Invalid APP Code [bk_app_code=%s], the app is disabled", "app is disabled"},
		gate.NoUser: {
			"User authentication failed, please provide a valid user identity, such as bk_token, bk_username", "",
		},
		gate.MayNotName: {
			"User authentication failed, please provide a valid user identity, such as bk_token: the app may not name a user by bk_username", "",
		},
		gate.UserTooLong: {"User authentication failed, bk_username is longer than %d bytes", ""},
		gate.UserUnfit: {
			"User authentication failed, bk_username holds a control character or is not valid UTF-8",
			"",
		},
		gate.BadToken:     {"User authentication failed, please check if the bk_token is valid", ""},
		gate.UserDisabled: {"User authentication failed, the user is disabled", ""},
		gate.Guessing:     {"too many wrong secrets came from this address, try again later", ""},
		gate.LoginDown:    {"User authentication failed, the login service could not be asked: try again later", ""},
	}
}
