package apiv1

import v1 "drover/api/v1"

// route is one row of the table.
type route struct {
	pattern string
	// name is the action in the audit log.
	name string
	// need is what a caller must be.
	need  need
	serve endpoint
}

// need is what a caller must be.
type need uint8

const (
	// noApp is for a call that checks its own proof.
	noApp need = iota + 1
	anyone
	admin
)

// table lists every path below v1.Prefix.
func (h *Handler) table() []route {
	return []route{
		{v1.RouteListProcesses, "processes.list", anyone, h.listProcesses},
		{v1.RouteCountProcesses, "processes.counts", anyone, h.countProcesses},
		{v1.RouteGetProcess, "processes.get", anyone, h.getProcess},
		{v1.RouteReadLogs, "processes.logs", anyone, h.readLogs},
		{v1.RouteGetNamespace, "namespaces.get", anyone, h.getNamespace},
		{v1.RoutePutNamespace, "namespaces.apply", anyone, h.putNamespace},
		{v1.RouteListRevisions, "namespaces.revisions", anyone, h.listRevisions},
		{v1.RouteCompareRevisions, "namespaces.diff", anyone, h.compareRevisions},
		{v1.RouteListWhy, "why.list", anyone, h.explain},
		{v1.RouteListDrift, "drift.list", anyone, h.listDrift},
		{v1.RouteListAgents, "agents.list", anyone, h.listAgents},
		{v1.RouteLabelAgents, "agents.label", anyone, h.labelAgents},
		{v1.RouteListTargets, "agents.prometheus", anyone, h.listTargets},
		{v1.RouteRemoveAgent, "agents.remove", admin, h.removeAgent},

		{v1.RouteListProxies, "proxies.list", admin, h.listProxies},
		{v1.RouteRemoveProxy, "proxies.remove", admin, h.removeProxy},

		{v1.RouteJoin, "join", noApp, h.join},
		{v1.RouteCreateJoinToken, "tokens.create", admin, h.createJoinToken},
		{v1.RouteListJoinTokens, "tokens.list", admin, h.listJoinTokens},
		{v1.RouteGetJoinToken, "tokens.get", admin, h.getJoinToken},
		{v1.RouteRevokeJoinToken, "tokens.revoke", admin, h.revokeJoinToken},

		{v1.RouteListKeys, "keys.list", admin, h.listKeys},
		{v1.RouteRotateKeys, "keys.rotate", admin, h.rotateKeys},
		{v1.RouteDropKey, "keys.drop", admin, h.dropKey},

		{v1.RouteListEvents, "events.list", anyone, h.listEvents},
		{v1.RouteStreamEvents, "events.stream", anyone, h.streamEvents},

		{v1.RouteCreateOperation, "operations.create", anyone, h.createOperation},
		{v1.RouteListOperations, "operations.list", anyone, h.listOperations},
		{v1.RouteGetOperation, "operations.get", anyone, h.getOperation},
		{v1.RouteListResults, "operations.results", anyone, h.listResults},
		{v1.RouteCancelOperation, "operations.cancel", anyone, h.cancelOperation},

		{v1.RouteListRollouts, "rollouts.list", anyone, h.listRollouts},
		{v1.RouteGetRollout, "rollouts.get", anyone, h.getRollout},
		{v1.RoutePauseRollout, "rollouts.pause", anyone, h.pauseRollout},
		{v1.RouteResumeRollout, "rollouts.resume", anyone, h.resumeRollout},
		{v1.RouteAbortRollout, "rollouts.abort", anyone, h.abortRollout},
		{v1.RouteRetryRollout, "rollouts.retry", anyone, h.retryRollout},

		{v1.RouteCreateApp, "apps.create", admin, h.createApp},
		{v1.RouteListApps, "apps.list", admin, h.listApps},
		{v1.RouteGetApp, "apps.get", admin, h.getApp},
		{v1.RouteChangeApp, "apps.change", admin, h.changeApp},
		{v1.RouteCreateSecret, "apps.secrets.create", admin, h.createSecret},

		{v1.RouteCreateUser, "users.create", admin, h.createUser},
		{v1.RouteListUsers, "users.list", admin, h.listUsers},
		{v1.RouteGetUser, "users.get", admin, h.getUser},
		{v1.RouteChangeUser, "users.change", admin, h.changeUser},
		{v1.RouteCreateToken, "users.tokens.create", admin, h.createToken},
		{v1.RouteListTokens, "users.tokens.list", admin, h.listTokens},
		{v1.RouteDeleteToken, "users.tokens.delete", admin, h.deleteToken},

		{v1.RouteCreateWebhook, "webhooks.create", admin, h.createWebhook},
		{v1.RouteListWebhooks, "webhooks.list", admin, h.listWebhooks},
		{v1.RouteGetWebhook, "webhooks.get", admin, h.getWebhook},
		{v1.RouteChangeWebhook, "webhooks.change", admin, h.changeWebhook},
		{v1.RouteDeleteWebhook, "webhooks.delete", admin, h.deleteWebhook},
		{v1.RouteRotateWebhook, "webhooks.secret.create", admin, h.rotateWebhook},
		{v1.RouteTestWebhook, "webhooks.test", admin, h.testWebhook},

		{v1.RouteListAudit, "audit.list", admin, h.listAudit},
	}
}
