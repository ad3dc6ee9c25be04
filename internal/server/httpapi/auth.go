package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"

	"drover/internal/gse"
	"drover/internal/server/store"
)

// Longest credentials that are looked at, in bytes.
const (
	maxAppCode   = 64
	maxAppSecret = 128
	maxUser      = 128
)

// credentials are what a caller proves itself with, under each of the names that are in use.
type credentials struct {
	AppCode      gse.Str `json:"bk_app_code"`
	AppCode1     gse.Str `json:"app_code"`
	AppSecret    gse.Str `json:"bk_app_secret"`
	AppSecret1   gse.Str `json:"app_secret"`
	Username     gse.Str `json:"bk_username"`
	Username1    gse.Str `json:"username"`
	Token        gse.Str `json:"bk_token"`
	AccessToken  gse.Str `json:"access_token"`
	AccessToken1 gse.Str `json:"bk_access_token"`
}

func (c *credentials) code() string   { return first(c.AppCode, c.AppCode1) }
func (c *credentials) secret() string { return first(c.AppSecret, c.AppSecret1) }
func (c *credentials) user() string   { return first(c.Username, c.Username1) }

// first returns the first value that is not empty.
func first(values ...gse.Str) string {
	for _, v := range values {
		if v.Text() != "" {
			return v.Text()
		}
	}
	return ""
}

// headerCredentials reads X-Bkapi-Authorization, which counts alone when it is there.
func headerCredentials(h http.Header) (c credentials, present bool, err error) {
	text := h.Get("X-Bkapi-Authorization")
	if text == "" {
		return c, false, nil
	}
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		return c, true, refusef(badHeader, "request header X-Bkapi-Authorization is not a JSON object")
	}
	return c, true, nil
}

// paramCredentials reads the parameters and, for what they lack, the query.
func paramCredentials(params []byte, query url.Values) (credentials, error) {
	flat, err := fromForm(query)
	if err != nil {
		return credentials{}, err
	}
	var c credentials
	for _, source := range [][]byte{flat, params} { // the later one overwrites
		if err := json.Unmarshal(source, &c); err != nil {
			return credentials{}, refusef(badRequest, "Request JSON string is wrong in format, %v", err)
		}
	}
	return c, nil
}

// authenticate checks who calls, and enters app and user into the call.
func (s *server) authenticate(ctx context.Context, c *call, creds credentials) error {
	c.audit.App, c.audit.User = clip(creds.code(), maxAppCode), clip(creds.user(), maxUser)
	if err := s.checkApp(ctx, c, creds); err != nil {
		return err
	}
	switch user := creds.user(); {
	case user != "" && len(user) <= maxUser && c.app.MayNameUsers:
		c.user = user
		return nil
	case creds.Token.Text() != "":
		return refusef(denied, "User authentication failed, please check if the bk_token is valid")
	case user != "" && c.app.MayNameUsers:
		return refusef(denied, "User authentication failed, bk_username is longer than %d bytes", maxUser)
	case user != "":
		return refusef(denied, "User authentication failed, please provide a valid user identity, such as bk_token: "+
			"the app may not name a user by bk_username")
	default:
		return refusef(denied, "User authentication failed, please provide a valid user identity, such as bk_token, bk_username")
	}
}

func (s *server) checkApp(ctx context.Context, c *call, creds credentials) error {
	code, secret := creds.code(), creds.secret()
	switch {
	case code == "":
		return refusef(denied, "%s", c.authText("APP Code [bk_app_code] cannot be empty", "app code cannot be empty"))
	case secret == "" && first(creds.AccessToken, creds.AccessToken1) != "":
		return refusef(denied, "%s", c.authText("verify access_token failed, access tokens are not in use here, please provide bk_app_secret",
			"access_token is invalid, please provide bk_app_secret"))
	case secret == "":
		return refusef(denied, "%s", c.authText("APP Secret [bk_app_secret] cannot be empty",
			"please provide bk_app_secret or bk_signature to verify app"))
	}
	// A wrong secret behind a gateway is answered like an unknown app.
	wrong := "bk_app_code or bk_app_secret is incorrect"
	invalid := refusef(denied, "%s", c.authText("Invalid APP Code [bk_app_code="+clip(code, maxAppCode)+"], please check", wrong))
	if len(code) > maxAppCode {
		return invalid
	}
	app, err := s.Apps.GetApp(ctx, code)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return invalid
	case err != nil:
		return failure("check the credentials", err)
	}
	ok, err := false, error(nil)
	if len(secret) <= maxAppSecret {
		ok, err = s.secrets.verify(ctx, app, secret)
	}
	switch {
	case err != nil:
		return failure("check the credentials", err)
	case !ok:
		return refusef(denied, "%s", c.authText("APP Secret verification failed, please check if the bk_app_secret is correct", wrong))
	}
	c.app = app
	return nil
}

// authText picks the words that the family uses.
func (c *call) authText(inESB, inGateway string) string {
	if c.family == gateway {
		return inGateway
	}
	return inESB
}

// clip cuts a text that goes into a message or a record.
func clip(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return text[:most] + "…"
}
