package api_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"drover/internal/process"
	"drover/internal/release"
	"drover/internal/server/store"
)

// signedPackage returns the signed text of a program.
func signedPackage(t *testing.T, version, arch string, program []byte) string {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	signed, err := release.Seal(release.Describe(version, arch, 1, program), key, time.Unix(1_790_000_000, 0))
	if err != nil {
		t.Fatal(err)
	}
	return string(signed)
}

func TestPackages(t *testing.T) {
	r := labelled(t)
	r.app("reader", "read-agents on *")
	r.app("other", "operate on *")
	program := bytes.Repeat([]byte("x"), release.PieceSize+10)
	signed := signedPackage(t, "1.4.0", "amd64", program)
	body := map[string]any{"signed": signed}
	r.refused(r.call("reader", "POST", "/packages", body), 403, "")
	for range 2 { // a repeated call has no effect
		a := r.want(201, r.call("admin", "POST", "/packages", body))
		same(t, "missing", []any{0.0, 1.0}, a.body["missing"].([]any))
	}
	again := map[string]any{"signed": signedPackage(t, "1.4.0", "amd64", program)}
	r.refused(r.call("admin", "POST", "/packages", again), 409, "")
	r.refused(r.call("admin", "POST", "/packages", map[string]any{"signed": strings.Replace(signed, "amd64", "arm64", 1)}),
		422, "signed")
	r.refused(r.call("admin", "POST", "/packages", map[string]any{"signed": "x"}), 422, "signed")
	put := func(app, place string, data []byte) answer {
		return r.call(app, "PUT", "/packages/"+place, map[string]any{"data": data})
	}
	r.refused(put("reader", "1.4.0/amd64/pieces/0", program), 403, "")
	r.refused(put("admin", "1.4.0/amd64/pieces/1", program[:9]), 422, "data")
	r.refused(put("admin", "1.4.0/amd64/pieces/2", program[:10]), 404, "")
	r.refused(put("admin", "1.4.0/arm64/pieces/0", program[:10]), 404, "")
	r.want(204, put("admin", "1.4.0/amd64/pieces/1", program[release.PieceSize:]))
	upgrade := func(app, body string) answer { return r.call(app, "POST", "/hosts/upgrade", body) }
	r.refused(upgrade("admin", `{"version":"1.4.0","hosts":["web-1"]}`), 422, "version") // incomplete
	r.want(204, put("admin", "1.4.0/amd64/pieces/0", program[:release.PieceSize]))
	r.refused(r.call("other", "GET", "/packages", nil), 403, "")
	a := r.want(200, r.call("reader", "GET", "/packages", nil))
	same(t, "packages", []string{"1.4.0 amd64"}, a.items("version", "arch"))
	for _, version := range []string{"1.10.0", "1.9.0"} {
		r.want(201, r.call("admin", "POST", "/packages", map[string]any{
			"signed": signedPackage(t, version, "arm64", program),
		}))
	}
	a = r.want(200, r.call("reader", "GET", "/packages?limit=2", nil))
	same(t, "a page", []string{"1.4.0 amd64", "1.9.0 arm64"}, a.items("version", "arch"))
	a = r.want(200, r.call("reader", "GET", "/packages?limit=2&cursor="+a.cursor(), nil))
	same(t, "the next page", []string{"1.10.0 arm64"}, a.items("version", "arch"))
	same(t, "the last cursor", "", a.cursor())

	r.app("upgrader", "upgrade-agents on * at area:0")
	r.app("narrow", "* on a")
	for _, tt := range []struct {
		app, body string
		status    int
		field     string
	}{
		{"other", `{"version":"1.4.0","hosts":["web-1"]}`, 403, ""},
		{"narrow", `{"version":"1.4.0","hosts":["web-1"]}`, 403, ""},
		{"upgrader", `{"version":"1.4.0","hosts":["3:10.0.0.3"]}`, 403, ""},
		{"admin", `{"version":"9.9.9","hosts":["web-1"]}`, 422, "version"},
		{"admin", `{"version":"x","hosts":["web-1"]}`, 422, "version"},
		{"admin", `{"version":"1.4.0"}`, 422, "hosts"},
		{"admin", `{"version":"1.4.0","select":"none=x"}`, 422, "hosts"},
		{"admin", `{"version":"1.4.0","hosts":["none-1"]}`, 422, "hosts[0]"},
		{"admin", `{"version":"1.4.0","hosts":["web-1"],"at":"late"}`, 422, "at"},
	} {
		r.refused(upgrade(tt.app, tt.body), tt.status, tt.field)
	}
	all := upgrade("admin", `{"version":"x","select":"","rollout":{"batch":"1","canary":-1}}`)
	r.want(422, all)
	same(t, "all faults at once", 3, len(all.body["errors"].([]any)))
	all = upgrade("admin", `{"version":"x","hosts":["none-1"],"at":"late"}`)
	r.want(422, all)
	same(t, "all faults at once", 3, len(all.body["errors"].([]any)))

	dry := r.want(200, r.call("upgrader", "POST", "/hosts/upgrade?dry_run=true", `{"version":"1.4.0","hosts":["*"]}`)).body
	same(t, "planned hosts", 2, len(dry["targets"].([]any)[0].(map[string]any)["hosts"].([]any)))
	same(t, "hosts that are away", nil, dry["away"])
	same(t, "planned rollout", 2.0, dry["rollout"].(map[string]any)["counts"].(map[string]any)["hosts"])
	same(t, "stored rollouts", 0, len(r.want(200, r.call("admin", "GET", "/rollouts", nil)).body["items"].([]any)))
	a = r.want(202, upgrade("upgrader", `{"version":"1.4.0","hosts":["web-1"],"rollout":{"batch":"1"}}`))
	same(t, "operation", any("upgrade:1.4.0"), a.body["op"])
	same(t, "process", []any{"drover/agent"}, a.body["processes"].([]any))
	same(t, "hosts", 1.0, a.body["counts"].(map[string]any)["hosts"])
	// A host has one upgrade at a time, and a paused one stops no other host.
	r.want(200, r.call("admin", "POST", "/rollouts/"+fmt.Sprint(a.body["id"])+"/pause", nil))
	dry = r.want(200, r.call("admin", "POST", "/hosts/upgrade?dry_run=true", `{"version":"1.4.0","hosts":["web-1"]}`)).body
	same(t, "reason", any(fmt.Sprintf("rollout %[1]s over drover/agent on web-1 is paused: resume it with "+
		"'drover rollout resume %[1]s', or end it with 'drover rollout abort %[1]s'", a.body["id"])), dry["reason"])
	refused := upgrade("admin", `{"version":"1.4.0","hosts":["*"]}`)
	r.refused(refused, 409, "")
	same(t, "refusal and plan", dry["reason"], refused.body["detail"])
	others := `{"version":"1.4.0","select":"role=db"}`
	dry = r.want(200, r.call("admin", "POST", "/hosts/upgrade?dry_run=true", others)).body
	same(t, "reason for other hosts", nil, dry["reason"])
	r.want(202, upgrade("admin", others))
	rows, err := r.store.ListAudit(t.Context(), store.AuditFilter{Action: "hosts.upgrade", App: "upgrader", Limit: 10})
	r.must(err)
	if len(rows) != 2 || rows[0].Message != process.Success { // the dry run has an action of its own
		t.Errorf("the audit rows are %+v", rows)
	}
	r.refused(r.call("reader", "DELETE", "/packages/1.4.0/amd64", nil), 403, "")
	// A rollout that has not ended keeps the package that its hosts have yet to fetch, and no other one.
	r.want(204, r.call("admin", "DELETE", "/packages/1.9.0/arm64", nil))
	open := r.want(200, r.call("admin", "GET", "/rollouts", nil)).body["items"].([]any)
	same(t, "open rollouts", 2, len(open))
	for _, o := range slices.Backward(open) {
		id := fmt.Sprint(o.(map[string]any)["id"])
		refused := r.call("admin", "DELETE", "/packages/1.4.0/amd64", nil)
		r.refused(refused, 409, "")
		if detail := fmt.Sprint(refused.body["detail"]); !strings.Contains(detail, "rollout "+id+" still needs package 1.4.0/amd64") {
			t.Errorf("the refusal does not name %s: %s", id, detail)
		}
		r.want(200, r.call("admin", "POST", "/rollouts/"+id+"/abort", nil))
	}
	r.want(204, r.call("admin", "DELETE", "/packages/1.4.0/amd64", nil))
	r.refused(r.call("admin", "DELETE", "/packages/1.4.0/amd64", nil), 404, "")
}
