package httpapi

import (
	"context"
	"net/http"
	"strings"

	"drover/internal/gse"
	"drover/internal/process"
)

// dialect is the form of replies that the callers of an endpoint expect.
type dialect uint8

const (
	gseDialect dialect = iota
	jobDialect         // empty message on success, permission, own codes
)

// endpoint answers one call with the value of "data", or with the reason to refuse it.
type endpoint func(ctx context.Context, c *call) (payload, error)

// area is the part of an API gateway's paths that an endpoint belongs to: /api/v2/<area>/<name>.
type area string

const (
	procArea    area = "proc"
	clusterArea area = "cluster"
	noArea      area = ""
)

// route is one row of the table.
type route struct {
	name    string
	dialect dialect
	area    area
	// direct lists the method and path on the backend to which a gateway would forward, such as "POST
	// /procapi/v2/proc/operate"; empty if there is no such path.
	direct []string
	serve  endpoint
}

// reads reports whether the endpoint changes nothing, judged by its name.
func (r *route) reads() bool {
	return strings.HasPrefix(r.name, "get_") || strings.HasPrefix(r.name, "list_") || strings.HasPrefix(r.name, "sync_")
}

// Reads are the names of the endpoints that change nothing.
func Reads() (names []string) {
	for _, r := range new(server).table() {
		if r.reads() {
			names = append(names, r.name)
		}
	}
	return names
}

// table lists every compatible call. resolve decides which paths lead to a row.
func (s *server) table() []route {
	return []route{
		{
			"register_proc_info", gseDialect, procArea,
			[]string{"POST /procapi/v1/proc/procinfo"},
			s.registering(process.Register),
		},
		{
			"update_proc_info", gseDialect, procArea,
			[]string{"PUT /procapi/v1/proc/procinfo"},
			s.registering(process.Update),
		},
		{
			"unregister_proc_info", gseDialect, procArea,
			[]string{"DELETE /procapi/v1/proc/procinfo"},
			s.registering(process.Unregister),
		},
		{
			"operate_proc", gseDialect, procArea,
			[]string{"POST /procapi/v1/proc/operate"},
			s.submitting(gse.ReadOperateRegistered),
		},
		{
			"operate_proc_v2", gseDialect, procArea,
			[]string{"POST /procapi/v2/proc/operate"},
			s.submitting(gse.ReadOperate),
		},
		{
			"operate_proc_multi", gseDialect, procArea,
			[]string{"POST /procapi/v2/proc/multioperate"},
			s.submitting(gse.ReadOperateMulti),
		},
		{"get_proc_operate_result", gseDialect, procArea, []string{"GET /procapi/v1/proc/operate"}, s.result},
		{"get_proc_operate_result_v2", gseDialect, procArea, []string{"GET /procapi/v2/proc/operate"}, s.result},
		{
			"get_proc_status", gseDialect, procArea,
			[]string{"GET /procapi/v1/proc/status", "POST /procapi/v1/proc/status"},
			s.status,
		},
		{
			"get_proc_status_v2", gseDialect, procArea,
			[]string{"GET /procapi/v2/proc/status", "POST /procapi/v2/proc/status"},
			s.status,
		},
		{
			"sync_proc_status", gseDialect, procArea,
			[]string{"GET /procapi/v1/proc/syncstatus", "POST /procapi/v1/proc/syncstatus"},
			s.sync,
		},
		{"set_process_group_info", gseDialect, procArea, []string{"POST /procapi/v1/proc/groupinfo"}, s.setGroups},
		{"get_process_group_info", gseDialect, procArea, []string{"GET /procapi/v1/proc/groupinfo"}, s.getGroups},
		{"upgrade_to_agent_id", gseDialect, procArea, nil, s.upgradeAgents},
		{"list_agent_state", gseDialect, clusterArea, nil, s.listAgentState},
		{"list_agent_info", gseDialect, clusterArea, nil, s.listAgentInfo},
		{"get_agent_status", gseDialect, noArea, nil, s.agentStatus},
		{"get_agent_info", gseDialect, noArea, nil, s.agentInfo},

		{"operate_process", jobDialect, noArea, nil, s.submitting(gse.ReadJobOperate)},
		{"operate_proc", jobDialect, noArea, nil, s.submitting(gse.ReadJobScripted)},
		{"manage_proc", jobDialect, noArea, nil, s.submitting(gse.ReadJobManage)},
		{"get_proc_result", jobDialect, noArea, nil, s.jobResult},
		{"get_agent_status", jobDialect, noArea, nil, s.jobAgentStatus},
	}
}

// namedMethods are the methods of every path that ends in an endpoint's name.
func namedMethods() []string { return []string{http.MethodGet, http.MethodPost} }
