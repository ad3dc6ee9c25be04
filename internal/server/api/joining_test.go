package api_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nkeys"

	"drover/internal/fabric/fabrictest"
	"drover/internal/server/admission"
	"drover/internal/server/api"
	"drover/internal/server/api/install"
	"drover/internal/server/edge"
	"drover/internal/server/enrol"
	"drover/internal/server/store"
	"drover/internal/wire"
)

// quiet is a broker that nobody is connected to.
type quiet struct{}

func (quiet) Revoke(string) error  { return nil }
func (quiet) Restore(string) error { return nil }

// withDesk is a rig that hosts can join.
func withDesk(t *testing.T) *rig {
	t.Helper()
	r := newRig(t)
	r.handler = api.New(api.Config{
		Config: edge.Config{
			Gate: believing{r.store}, Engine: r.engine, Tasks: r.store, Audit: recorder{r.store},
			Rooms: admission.New(), Log: r.handler.Log,
		},
		Bus: r.bus, Directory: r.fleet, History: r.store, Fullness: r.store,
		Joining: install.Joining{Store: r.store, Enroller: enrol.New(enrol.Config{
			Store: r.store, Directory: r.fleet, Broker: quiet{}, Fingerprint: func(store.JoinToken) string {
				return strings.Repeat("ab", 32)
			}, Now: time.Now, Happened: func() {},
			Issue: func(a store.Agent) (wire.Enrolment, error) {
				return wire.Enrolment{
					URLs: []string{"tls://x:1"}, JWT: "j", CA: "c", ManifestKeys: []string{"A"},
					Cloud: a.Cloud, IP: a.IP, ID: a.ID,
				}, nil
			},
		})},
	})
	r.app("admin")
	return r
}

func TestTokens(t *testing.T) {
	r := withDesk(t)
	made := r.want(201,
		r.call("admin", "POST", "/tokens",
			`{"cloud":3,"labels":{"role":"web"},"business":7,"note":"rack 4","uses":2,"ttl_seconds":60}`))
	text, id := made.body["token"].(string), made.body["id"].(string)
	if !strings.HasPrefix(text, "dvt1."+id+".") || made.header.Get("Location") != "/api/v1/tokens/"+id {
		t.Errorf("made %v, %v", made.body, made.header)
	}
	secret := strings.Split(text, ".")[2]
	r.want(201, r.call("admin", "POST", "/tokens", `{"cloud":0,"uses":1,"ttl_seconds":1}`))
	first := r.want(200, r.call("admin", "GET", "/tokens?limit=1", nil))
	second := r.want(200, r.call("admin", "GET", "/tokens?limit=1&cursor="+first.cursor(), nil))
	fields := []string{"id", "state", "cloud", "labels.role", "business", "uses", "used"}
	pages := append(first.items(fields...), second.items(fields...)...) // tokens of one moment have no order
	if len(pages) != 2 || !slices.Contains(pages, id+" open 3 web 7 2 0") {
		t.Errorf("the pages are %q", pages)
	}
	r.want(204, r.call("admin", "DELETE", "/tokens/"+id, nil))
	shown := r.want(200, r.call("admin", "GET", "/tokens/"+id, nil))
	if shown.body["state"] != "revoked" || shown.body["revoked_at"] == nil || shown.body["token"] != nil {
		t.Errorf("shown %v", shown.body)
	}
	rows, err := r.store.ListAudit(t.Context(), store.AuditFilter{Limit: 100})
	r.must(err)
	for _, row := range rows {
		if strings.Contains(fmt.Sprintf("%+v %s", row, row.Detail), secret) ||
			strings.Contains(fmt.Sprint(shown.body, second.body), secret) {
			t.Errorf("%s tells the secret", row.Action)
		}
	}
	if first := rows[len(rows)-1]; first.Action != "tokens.create" || first.Target != id ||
		!strings.Contains(string(first.Detail), "rack 4") {
		t.Errorf("recorded as %+v", first)
	}
}

// TestTokenForAHost: a token to replace a host names it by any of its names, is for one host, and for its area.
func TestTokenForAHost(t *testing.T) {
	r := withDesk(t)
	a, _ := r.fleet.Lookup(0, "10.0.0.1")
	for _, name := range []string{"0:10.0.0.1", a.Key} {
		made := r.want(201, r.call("admin", "POST", "/tokens", `{"cloud":0,"uses":1,"ttl_seconds":60,"replaces":"`+name+`"}`))
		if got := made.body["replaces"]; got != "web-1" && got != "0:10.0.0.1" {
			t.Errorf("made %v", made.body)
		}
	}
	for body, field := range map[string]string{
		`{"cloud":0,"uses":2,"ttl_seconds":60,"replaces":"0:10.0.0.1"}`:                "uses",
		`{"cloud":1,"uses":1,"ttl_seconds":60,"replaces":"0:10.0.0.1"}`:                "cloud",
		`{"cloud":0,"uses":1,"ttl_seconds":60,"replaces":"nobody"}`:                    "replaces",
		`{"cloud":0,"uses":1,"ttl_seconds":60,"replaces":"0:10.0.0.1","role":"proxy"}`: "role",
	} {
		r.refused(r.call("admin", "POST", "/tokens", body), 422, field)
	}
}

func TestTokensRefused(t *testing.T) {
	r := withDesk(t)
	r.app("viewer", "* on *")
	for body, field := range map[string]string{
		`{"uses":1,"ttl_seconds":1,"cloud":-1}`:                                 "cloud",
		`{"uses":0,"ttl_seconds":1}`:                                            "uses",
		`{"uses":100001,"ttl_seconds":1}`:                                       "uses",
		`{"uses":1}`:                                                            "ttl_seconds",
		`{"uses":1,"ttl_seconds":99999999}`:                                     "ttl_seconds",
		`{"uses":1,"ttl_seconds":1,"business":-1}`:                              "business",
		`{"uses":1,"ttl_seconds":1,"labels":{"":"x"}}`:                          "labels",
		`{"uses":1,"ttl_seconds":1,"labels":{"a b":"x"}}`:                       "labels",
		`{"uses":1,"ttl_seconds":1,"labels":{"a":"x,y"}}`:                       "labels",
		`{"uses":1,"ttl_seconds":1,"note":"` + strings.Repeat("x", 1025) + `"}`: "note",
		`{"uses":1,"ttl_seconds":1,"area":3}`:                                   "area",
		`{"uses":1,"ttl_seconds":1,"role":"king"}`:                              "role",
		`{"uses":1,"ttl_seconds":1,"role":"proxy","business":7}`:                "role",
	} {
		r.refused(r.call("admin", "POST", "/tokens", body), 422, field)
	}
	for _, call := range [][2]string{
		{"POST", "/tokens"},
		{"GET", "/tokens"},
		{"GET", "/tokens/x"},
		{"DELETE", "/tokens/x"},
		{"DELETE", "/hosts/web-1"},
		{"GET", "/proxies"},
		{"DELETE", "/proxies/x"},
	} {
		r.refused(r.call("viewer", call[0], call[1], nil), 403, "")
	}
	r.refused(r.call("admin", "GET", "/tokens/none", nil), 404, "")
	r.refused(r.call("admin", "DELETE", "/tokens/none", nil), 404, "")

	dev := newRig(t)
	dev.app("admin")
	dev.refused(dev.call("admin", "POST", "/tokens", `{"cloud":0,"uses":1,"ttl_seconds":1}`), 409, "")
	dev.refused(dev.call("", "POST", "/join", `{}`), 409, "")
	dev.refused(dev.call("admin", "DELETE", "/hosts/web-1", nil), 409, "")
}

func TestJoinAndRemove(t *testing.T) {
	r := withDesk(t)
	text := r.want(201,
		r.call("admin", "POST", "/tokens",
			`{"cloud":3,"labels":{"role":"web"},"uses":1,"ttl_seconds":60}`)).body["token"].(string)
	token, err := wire.ParseJoinToken(text)
	r.must(err)
	key, err := nkeys.CreateUser()
	r.must(err)
	public, err := key.PublicKey()
	r.must(err)
	request := func(secret string) string {
		_, sealing := fabrictest.NewSealingKey(t)
		data, err := wire.SealJoin(wire.JoinRequest{
			Token: token.ID, Secret: secret, At: time.Now(), IP: "10.3.0.1",
			Build: "b", Sealing: sealing,
		}, key)
		r.must(err)
		return string(data)
	}
	r.refused(r.call("", "POST", "/join", request("wrong-wrong-wrong-wrong-wrong")), 403, "")
	r.refused(r.call("", "POST", "/join", "{"), 400, "")
	r.refused(r.call("", "POST", "/join", strings.Repeat("x", 17<<10)), 413, "")
	joined := r.want(200, r.call("", "POST", "/join", request(token.Secret)))
	if joined.body["cloud"] != 3.0 || joined.body["ip"] != "10.3.0.1" {
		t.Errorf("joined as %v", joined.body)
	}
	listed := r.want(200, r.call("admin", "GET", "/hosts?host=3:10.3.0.1", nil))
	same(t, "listed", []string{public + " web"}, listed.items("key", "labels.role"))

	r.want(204, r.call("admin", "DELETE", "/hosts/3:10.3.0.1", nil))
	r.refused(r.call("admin", "DELETE", "/hosts/"+public, nil), 404, "")
	r.want(204, r.call("admin", "DELETE", "/hosts/"+web, nil))

	rows, err := r.store.ListAudit(t.Context(), store.AuditFilter{Action: "join", Limit: 10})
	r.must(err)
	var seen []string
	for _, row := range slices.Backward(rows) {
		seen = append(seen, fmt.Sprintf("%v %d %s", row.Allowed, row.Code, row.Target))
		var attempt enrol.Attempt
		if len(row.Detail) == 0 {
			continue // it was too large to be read
		}
		r.must(json.Unmarshal(row.Detail, &attempt))
		if row.Allowed && (attempt.Token != token.ID || attempt.Build != "b") ||
			strings.Contains(string(row.Detail), "wrong") || strings.Contains(string(row.Detail), token.Secret) {
			t.Errorf("recorded as %s", row.Detail)
		}
	}
	same(t, "the record", []string{"false 403 " + public, "false 400 ", "false 413 ", "true 0 3:10.3.0.1 " + public},
		seen)
}
