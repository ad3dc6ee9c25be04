package api_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nkeys"

	"drover/internal/fabric/fabrictest"
	"drover/internal/server/api"
	"drover/internal/server/api/hosts"
	"drover/internal/server/api/install"
	"drover/internal/server/enrol"
	"drover/internal/server/fleet"
	"drover/internal/server/store"
	"drover/internal/wire"
)

// relays is a register of proxies that takes in everybody.
type relays struct {
	list []hosts.Proxy
	gone []string
}

func (r *relays) List() []hosts.Proxy { return r.list }

func (r *relays) Admit(_ context.Context, p store.Proxy, _ func(store.JoinToken, bool) error) error {
	r.list = append(r.list, hosts.Proxy{Proxy: p, Online: true, LastSeen: time.Now(), Agents: 7})
	return nil
}

func (r *relays) Remove(_ context.Context, key string, _ time.Time) error {
	r.gone = append(r.gone, key)
	return nil
}

func (r *relays) Issue(p store.Proxy, _ []byte) (wire.ProxyEnrolment, error) {
	return wire.ProxyEnrolment{
		Fleet: "fleet", SealingKeys: []string{"key"},
		Area: p.Area, Name: p.Name, JWT: "j", Hubs: []string{"x:1"}, CA: "c", Account: "a",
		Certificate: "p", Digest: "d",
	}, nil
}

// sealed is a request to join, by a key of its own.
func sealed(t *testing.T, q wire.JoinRequest) string {
	t.Helper()
	key, err := nkeys.CreateUser()
	if err != nil {
		t.Fatal(err)
	}
	data, err := wire.SealJoin(q, key)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestProxies(t *testing.T) {
	r := withDesk(t)
	all := &relays{}
	r.remake(func(c *api.Config) { c.Joining.Proxies = all })
	r.handler.Joining.Enroller.(*enrol.Enroller).Proxies = all
	made := r.want(201, r.call("admin", "POST", "/tokens", `{"role":"proxy","cloud":3,"uses":2,"ttl_seconds":60}`))
	if made.body["role"] != "proxy" {
		t.Errorf("made %v", made.body)
	}
	token, err := wire.ParseJoinToken(made.body["token"].(string))
	r.must(err)
	for _, name := range []string{"dmz-1", "dmz-2"} {
		_, sealing := fabrictest.NewSealingKey(t)
		answer := r.want(200, r.call("", "POST", "/join", sealed(t, wire.JoinRequest{
			Token: token.ID, Secret: token.Secret, At: time.Now(), Build: "test", Sealing: sealing,
			Proxy: &wire.ProxyFacts{Name: name, Advertise: "10.1.0.2:7351"},
		})))
		if answer.body["name"] != name || answer.body["area"] != 3.0 {
			t.Errorf("answered %v", answer.body)
		}
	}
	first := r.want(200, r.call("admin", "GET", "/proxies?limit=1", nil))
	second := r.want(200, r.call("admin", "GET", "/proxies?limit=1&cursor="+first.cursor(), nil))
	same(t, "the first page", []string{"dmz-1 3 true 7 10.1.0.2:7351"}, first.items("name", "area", "online", "agents",
		"advertise"))
	same(t, "the second page", []string{"dmz-2"}, second.items("name"))
	both := all.list
	all.list = both[1:]
	same(t, "the second page, when the first was removed", []string{"dmz-2"},
		r.want(200, r.call("admin", "GET", "/proxies?limit=1&cursor="+first.cursor(), nil)).items("name"))
	all.list = both
	r.want(204, r.call("admin", "DELETE", "/proxies/dmz-2", nil))
	r.want(204, r.call("admin", "DELETE", "/proxies/"+all.list[0].Key, nil))
	same(t, "removed", []string{all.list[1].Key, all.list[0].Key}, all.gone)
	r.refused(r.call("admin", "DELETE", "/proxies/none", nil), 404, "")
	rows, err := r.store.ListAudit(t.Context(), store.AuditFilter{Action: "proxies.remove", Limit: 10})
	r.must(err)
	if len(rows) != 3 || rows[2].Target != "3:dmz-2 "+all.list[1].Key {
		t.Errorf("recorded as %+v", rows)
	}

	dev := newRig(t)
	dev.app("admin")
	dev.refused(dev.call("admin", "DELETE", "/proxies/x", nil), 409, "")
	same(t, "proxies of drover dev", []string(nil),
		dev.want(200, dev.call("admin", "GET", "/proxies", nil)).items("name"))
}

// TestAHostThatAsksThroughAProxy is judged by the area of that.
func TestAHostThatAsksThroughAProxy(t *testing.T) {
	r := withDesk(t)
	made := r.want(201, r.call("admin", "POST", "/tokens", `{"cloud":3,"uses":2,"ttl_seconds":60}`))
	token, err := wire.ParseJoinToken(made.body["token"].(string))
	r.must(err)
	_, sealing := fabrictest.NewSealingKey(t)
	body := sealed(t, wire.JoinRequest{
		Token: token.ID, Secret: token.Secret, At: time.Now(), Build: "test",
		IP: "10.0.0.9", Sealing: sealing,
	})
	through := func(area int) context.Context {
		return install.WithRelay(t.Context(), enrol.Relay{Key: "UPROXY", Area: area})
	}
	r.refused(r.send(through(4), "", "POST", "/join", body), 422, "")
	r.want(200, r.send(through(3), "", "POST", "/join", body))
}

// TestAgentsBehindAProxy: the filter proxy selects hosts by the area of a proxy, within the rights of the caller.
func TestAgentsBehindAProxy(t *testing.T) {
	r := withDesk(t)
	all := &relays{}
	for name, area := range map[string]int{"dmz-1": 3, "dmz-2": 3, "empty-1": 4, "own-1": 0} {
		all.list = append(all.list, hosts.Proxy{Proxy: store.Proxy{Name: name, Area: area}})
	}
	r.remake(func(c *api.Config) { c.Joining.Proxies = all })
	r.app("narrow", "read-agents on * at area:0")
	for query, want := range map[string][]string{
		"proxy=dmz-1":              {"3:10.0.0.3"},
		"proxy=own-1":              {"web-1", "0:10.0.0.2"},
		"proxy=*-1":                {"web-1", "0:10.0.0.2", "3:10.0.0.3"},
		"proxy=empty-*":            nil,
		"proxy=own-1&state=away":   nil,
		"proxy=dmz-*&host=3:10.0*": {"3:10.0.0.3"},
	} {
		same(t, query, want, r.want(200, r.call("admin", "GET", "/hosts?"+query, nil)).items("id"))
	}
	r.refused(r.call("admin", "GET", "/hosts?proxy=dmz", nil), 422, "proxy")
	own := r.want(200, r.call("narrow", "GET", "/hosts?proxy=*", nil)).items("id")
	same(t, "hosts of the own area", []string{"web-1", "0:10.0.0.2"}, own)
	hidden := r.call("narrow", "GET", "/hosts?proxy=dmz-1", nil)
	r.refused(hidden, 422, "proxy")
	if missing := r.call("narrow", "GET", "/hosts?proxy=dmz-9", nil); strings.ReplaceAll(
		fmt.Sprint(missing.body["detail"]), "dmz-9", "dmz-1") != hidden.body["detail"] {
		t.Errorf("the answer %v tells whether the proxy exists: %v", hidden.body, missing.body)
	}
}

func TestAgentsByPolicy(t *testing.T) {
	r := newRig(t)
	r.app("admin")
	r.fleet.Introduced(web, fleet.Facts{Started: time.Now(), Policy: "users shop"}, time.Now())
	r.fleet.Introduced(plain, fleet.Facts{Started: time.Now()}, time.Now())
	for policy, want := range map[string][]string{"limited": {"web-1"}, "none": {"0:10.0.0.2"}} {
		same(t, policy, want, r.want(200, r.call("admin", "GET", "/hosts?policy="+policy, nil)).items("id"))
	}
	r.refused(r.call("admin", "GET", "/hosts?policy=broken", nil), 422, "policy")
}
