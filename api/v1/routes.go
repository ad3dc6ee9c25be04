package v1

// The routes, as patterns of net/http. A name in braces stands for one escaped segment of the path.
const (
	RouteListProcesses  = "GET /api/v1/processes"
	RouteCountProcesses = "GET /api/v1/processes/counts"
	RouteOverview       = "GET /api/v1/overview"
	RouteGetProcess     = "GET /api/v1/processes/{namespace}/{name}"
	RouteReadLogs       = "GET /api/v1/processes/{namespace}/{name}/logs"
	RouteReadUsage      = "GET /api/v1/processes/{namespace}/{name}/hosts/{host}/usage"
	RouteGetNamespace   = "GET /api/v1/namespaces/{namespace}"
	RoutePutNamespace   = "PUT /api/v1/namespaces/{namespace}"
	RouteListRevisions  = "GET /api/v1/namespaces/{namespace}/revisions"
	// RouteCompareRevisions answers a Plan.
	RouteCompareRevisions  = "GET /api/v1/namespaces/{namespace}/diff"
	RouteListChanges       = "GET /api/v1/changes"
	RouteListWhy           = "GET /api/v1/why"
	RouteListDrift         = "GET /api/v1/drift"
	RouteListHosts         = "GET /api/v1/hosts"
	RouteCountHosts        = "GET /api/v1/hosts/counts"
	RouteLabelHosts        = "POST /api/v1/hosts/labels"
	RouteListScrapeTargets = "GET /api/v1/hosts/prometheus"
	RouteRemoveHost        = "DELETE /api/v1/hosts/{id}"
	// RouteUpgradeAgents begins a rollout and answers it.
	RouteUpgradeAgents = "POST /api/v1/hosts/upgrade"

	RouteAddPackage    = "POST /api/v1/packages"
	RouteListPackages  = "GET /api/v1/packages"
	RoutePutPiece      = "PUT /api/v1/packages/{version}/{arch}/pieces/{piece}"
	RouteRemovePackage = "DELETE /api/v1/packages/{version}/{arch}"

	RouteListProxies = "GET /api/v1/proxies"
	RouteRemoveProxy = "DELETE /api/v1/proxies/{id}"

	RouteJoin            = "POST /api/v1/join"
	RouteCreateJoinToken = "POST /api/v1/tokens"
	RouteListJoinTokens  = "GET /api/v1/tokens"
	RouteGetJoinToken    = "GET /api/v1/tokens/{id}"
	RouteRevokeJoinToken = "DELETE /api/v1/tokens/{id}"

	RouteListKeys   = "GET /api/v1/keys"
	RouteRotateKeys = "POST /api/v1/keys/{kind}/rotate"
	RouteDropKey    = "DELETE /api/v1/keys/{kind}/{id}"

	RouteListEvents   = "GET /api/v1/events"
	RouteStreamEvents = "GET /api/v1/events/stream"

	RouteCreateTask      = "POST /api/v1/tasks"
	RouteCreateSelection = "POST /api/v1/selections"
	RouteGetSelection    = "GET /api/v1/selections/{id}"
	RouteListTasks       = "GET /api/v1/tasks"
	RouteGetTask         = "GET /api/v1/tasks/{id}"
	RouteListResults     = "GET /api/v1/tasks/{id}/results"
	RouteCancelTask      = "POST /api/v1/tasks/{id}/cancel"

	RouteListRollouts  = "GET /api/v1/rollouts"
	RouteGetRollout    = "GET /api/v1/rollouts/{id}"
	RoutePauseRollout  = "POST /api/v1/rollouts/{id}/pause"
	RouteResumeRollout = "POST /api/v1/rollouts/{id}/resume"
	RouteAbortRollout  = "POST /api/v1/rollouts/{id}/abort"
	RouteRetryRollout  = "POST /api/v1/rollouts/{id}/retry"
	RoutePaceRollout   = "POST /api/v1/rollouts/{id}/pace"
	// RouteApproveRollout has a held rollout go on. RouteUndoRollout begins a rollout and answers it.
	RouteApproveRollout = "POST /api/v1/rollouts/{id}/approve"
	RouteUndoRollout    = "POST /api/v1/rollouts/{id}/undo"

	RouteCreateSchedule = "POST /api/v1/schedules"
	RouteListSchedules  = "GET /api/v1/schedules"
	RouteGetSchedule    = "GET /api/v1/schedules/{name}"
	RoutePauseSchedule  = "POST /api/v1/schedules/{name}/pause"
	RouteResumeSchedule = "POST /api/v1/schedules/{name}/resume"
	// RouteRunSchedule begins a run now.
	RouteRunSchedule    = "POST /api/v1/schedules/{name}/run"
	RouteRemoveSchedule = "DELETE /api/v1/schedules/{name}"

	RouteCreateApp    = "POST /api/v1/apps"
	RouteListApps     = "GET /api/v1/apps"
	RouteGetApp       = "GET /api/v1/apps/{code}"
	RouteChangeApp    = "PATCH /api/v1/apps/{code}"
	RouteCreateSecret = "POST /api/v1/apps/{code}/secrets"

	RouteCreateUser   = "POST /api/v1/users"
	RouteListUsers    = "GET /api/v1/users"
	RouteGetUser      = "GET /api/v1/users/{name}"
	RouteChangeUser   = "PATCH /api/v1/users/{name}"
	RouteCheckRight   = "GET /api/v1/rights/check"
	RouteCreateSignIn = "POST /api/v1/sign-ins"
	// RouteCreateDevice begins the sign-in of a command line, and needs no credentials. RouteEndSignIn ends the token
	// of a command line that makes the call.
	RouteCreateDevice = "POST /api/v1/sign-ins/devices"
	RouteDeviceState  = "POST /api/v1/sign-ins/devices/state"
	RouteEndSignIn    = "DELETE /api/v1/sign-ins/own"

	RouteCreateToken = "POST /api/v1/users/{name}/tokens"
	RouteListTokens  = "GET /api/v1/users/{name}/tokens"
	RouteDeleteToken = "DELETE /api/v1/users/{name}/tokens/{id}"

	RouteCreateReceiver = "POST /api/v1/receivers"
	RouteListReceivers  = "GET /api/v1/receivers"
	RouteGetReceiver    = "GET /api/v1/receivers/{name}"
	RouteChangeReceiver = "PATCH /api/v1/receivers/{name}"
	RouteDeleteReceiver = "DELETE /api/v1/receivers/{name}"
	RouteRotateReceiver = "POST /api/v1/receivers/{name}/secret"
	RouteTestReceiver   = "POST /api/v1/receivers/{name}/test"

	RouteCreateSilence = "POST /api/v1/silences"
	RouteListSilences  = "GET /api/v1/silences"
	RouteGetSilence    = "GET /api/v1/silences/{id}"
	RouteRemoveSilence = "DELETE /api/v1/silences/{id}"

	RouteListBreakers = "GET /api/v1/breakers"
	RouteResetBreaker = "POST /api/v1/breakers/{namespace}/{name}/reset"

	RouteListAudit = "GET /api/v1/audit"
	RouteGetServer = "GET /api/v1/server"
)
