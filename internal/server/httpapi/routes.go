package httpapi

import (
	"context"
	"net/http"
	"path"
	"slices"
	"strings"

	"drover/internal/gse"
	"drover/internal/process"
)

// family is a group of paths with one habit of refusing.
type family uint8

const (
	esb     family = iota // below /compapi/: HTTP 200 for all but an unknown path
	gateway               // behind an API gateway: refusals have a status of their own
)

// dialect is what the callers of an endpoint expect of a reply.
type dialect uint8

const (
	gseDialect dialect = iota
	jobDialect         // an empty message on success, permission, codes of its own
)

// wire is the dialect's name in a stored task.
func (d dialect) wire() string {
	if d == jobDialect {
		return "job"
	}
	return "gse"
}

// endpoint answers one call: with what is to stand under "data", or with why it is refused.
type endpoint func(ctx context.Context, c *call) (payload, error)

// route is one row of the table.
type route struct {
	// path is what the end of a request's path must be, so that any prefix may stand before it.
	path    string
	methods []string
	dialect dialect
	serve   endpoint
}

// table lists every compatible path. The last part of a path is the endpoint's name.
func (s *server) table() []route {
	var (
		operate    = s.submitting(gse.ReadOperate)
		multi      = s.submitting(gse.ReadOperateMulti)
		register   = s.registering(process.Register)
		update     = s.registering(process.Update)
		unregister = s.registering(process.Unregister)
		jobOperate = s.submitting(gse.ReadJobOperate)
		jobManage  = s.submitting(gse.ReadJobManage)
	)
	query := []string{http.MethodGet, http.MethodPost}
	return []route{
		{"compapi/v2/gse/register_proc_info", query, gseDialect, register},
		{"compapi/v2/gse/update_proc_info", query, gseDialect, update},
		{"compapi/v2/gse/unregister_proc_info", query, gseDialect, unregister},
		{"compapi/v2/gse/operate_proc_v2", query, gseDialect, operate},
		{"compapi/v2/gse/operate_proc_multi", query, gseDialect, multi},
		{"compapi/v2/gse/get_proc_operate_result", query, gseDialect, s.result},
		{"compapi/v2/gse/get_proc_operate_result_v2", query, gseDialect, s.result},
		{"compapi/v2/gse/get_proc_status", query, gseDialect, s.status},
		{"compapi/v2/gse/get_proc_status_v2", query, gseDialect, s.status},
		{"compapi/v2/gse/sync_proc_status", query, gseDialect, s.sync},

		{"api/v2/proc/register_proc_info", query, gseDialect, register},
		{"api/v2/proc/update_proc_info", query, gseDialect, update},
		{"api/v2/proc/unregister_proc_info", query, gseDialect, unregister},
		{"api/v2/proc/operate_proc_v2", query, gseDialect, operate},
		{"api/v2/proc/operate_proc_multi", query, gseDialect, multi},
		{"api/v2/proc/get_proc_operate_result", query, gseDialect, s.result},
		{"api/v2/proc/get_proc_operate_result_v2", query, gseDialect, s.result},
		{"api/v2/proc/get_proc_status", query, gseDialect, s.status},
		{"api/v2/proc/get_proc_status_v2", query, gseDialect, s.status},
		{"api/v2/proc/sync_proc_status", query, gseDialect, s.sync},

		{"compapi/v2/job/operate_process", query, jobDialect, jobOperate},
		{"compapi/v2/job/manage_proc", query, jobDialect, jobManage},
		{"compapi/v2/job/get_proc_result", query, jobDialect, s.jobResult},
		{"compapi/v2/jobv3/operate_process", query, jobDialect, jobOperate},
		{"compapi/v2/jobv3/manage_proc", query, jobDialect, jobManage},
		{"compapi/v2/jobv3/get_proc_result", query, jobDialect, s.jobResult},
	}
}

// name is the endpoint's name.
func (r *route) name() string { return path.Base(r.path) }

// allows reports whether the method may be used.
func (r *route) allows(method string) bool { return slices.Contains(r.methods, method) }

// index groups the table by the last part of the path.
func index(table []route) map[string][]route {
	m := make(map[string][]route, len(table))
	for _, r := range table {
		m[r.name()] = append(m[r.name()], r)
	}
	return m
}

// resolve finds the route of a path. Empty parts do not count, so a doubled or a trailing slash changes nothing.
func (s *server) resolve(urlPath string) (*route, family) {
	parts := strings.FieldsFunc(urlPath, func(c rune) bool { return c == '/' })
	f := gateway
	if slices.Contains(parts, "compapi") {
		f = esb
	}
	if len(parts) == 0 {
		return nil, f
	}
	clean := "/" + strings.Join(parts, "/")
	rows := s.routes[parts[len(parts)-1]]
	for i := range rows {
		if strings.HasSuffix(clean, "/"+rows[i].path) {
			return &rows[i], f
		}
	}
	return nil, f
}
