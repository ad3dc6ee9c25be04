package apiv1

import "net/http"

// route is one row of the table.
type route struct {
	method, path string
	// name is what the audit record calls it.
	name string
	// need is what a caller must be.
	need  need
	serve endpoint
}

// need is what a caller must be.
type need uint8

const (
	// noApp is for what asks for its own proof.
	noApp need = iota + 1
	anyone
	admin
)

// table lists every path below Prefix.
func (h *Handler) table() []route {
	const (
		get, post, patch, del = http.MethodGet, http.MethodPost, http.MethodPatch, http.MethodDelete
	)
	return []route{
		{get, "/processes", "processes.list", anyone, h.listProcesses},
		{get, "/processes/counts", "processes.counts", anyone, h.countProcesses},
		{get, "/processes/{namespace}/{name}", "processes.get", anyone, h.getProcess},
		{get, "/why", "why.list", anyone, h.explain},
		{get, "/agents", "agents.list", anyone, h.listAgents},
		{del, "/agents/{id}", "agents.remove", admin, h.removeAgent},

		{get, "/proxies", "proxies.list", admin, h.listProxies},
		{del, "/proxies/{id}", "proxies.remove", admin, h.removeProxy},

		{post, "/join", "join", noApp, h.join},
		{post, "/tokens", "tokens.create", admin, h.createJoinToken},
		{get, "/tokens", "tokens.list", admin, h.listJoinTokens},
		{get, "/tokens/{id}", "tokens.get", admin, h.getJoinToken},
		{del, "/tokens/{id}", "tokens.revoke", admin, h.revokeJoinToken},

		{get, "/keys", "keys.list", admin, h.listKeys},
		{post, "/keys/{kind}/rotate", "keys.rotate", admin, h.rotateKeys},
		{del, "/keys/{kind}/{id}", "keys.drop", admin, h.dropKey},

		{get, "/events", "events.list", anyone, h.listEvents},
		{get, "/events/stream", "events.stream", anyone, h.streamEvents},

		{post, "/operations", "operations.create", anyone, h.createOperation},
		{get, "/operations", "operations.list", anyone, h.listOperations},
		{get, "/operations/{id}", "operations.get", anyone, h.getOperation},
		{get, "/operations/{id}/results", "operations.results", anyone, h.listResults},

		{post, "/apps", "apps.create", admin, h.createApp},
		{get, "/apps", "apps.list", admin, h.listApps},
		{get, "/apps/{code}", "apps.get", admin, h.getApp},
		{patch, "/apps/{code}", "apps.change", admin, h.changeApp},
		{post, "/apps/{code}/secrets", "apps.secrets.create", admin, h.createSecret},

		{post, "/users", "users.create", admin, h.createUser},
		{get, "/users", "users.list", admin, h.listUsers},
		{get, "/users/{name}", "users.get", admin, h.getUser},
		{patch, "/users/{name}", "users.change", admin, h.changeUser},
		{post, "/users/{name}/tokens", "users.tokens.create", admin, h.createToken},
		{get, "/users/{name}/tokens", "users.tokens.list", admin, h.listTokens},
		{del, "/users/{name}/tokens/{id}", "users.tokens.delete", admin, h.deleteToken},

		{post, "/webhooks", "webhooks.create", admin, h.createWebhook},
		{get, "/webhooks", "webhooks.list", admin, h.listWebhooks},
		{get, "/webhooks/{name}", "webhooks.get", admin, h.getWebhook},
		{patch, "/webhooks/{name}", "webhooks.change", admin, h.changeWebhook},
		{del, "/webhooks/{name}", "webhooks.delete", admin, h.deleteWebhook},
		{post, "/webhooks/{name}/secret", "webhooks.secret.create", admin, h.rotateWebhook},
		{post, "/webhooks/{name}/test", "webhooks.test", admin, h.testWebhook},

		{get, "/audit", "audit.list", admin, h.listAudit},
	}
}
