package gse_test

import (
	"fmt"
	"strings"
	"testing"

	"drover/internal/gse"
	"drover/internal/process"
)

// TestASpecThatIsTooLargeIsNotKept: no call takes one, whatever it asks for: a question that heeds no spec is kept with
// it, too.
func TestASpecThatIsTooLargeIsNotKept(t *testing.T) {
	long := strings.Repeat("y", process.MaxSpec)
	const head = `"meta": {"namespace": "n", "name": "p"}, "hosts": [{"ip": "10.0.0.1", "bk_cloud_id": 0}]`
	identity := `{"identity": {"proc_name": "d", "setup_path": "/` + long + `", "user": "root"}}`
	register := func(body []byte) ([]gse.Operation, error) { return gse.ReadRegistration(body, process.Register) }
	for field, c := range map[string]struct {
		read func([]byte) ([]gse.Operation, error)
		body string
	}{
		"spec": {gse.ReadOperate, `{` + head + `, "op_type": 2, "spec": ` + identity + `}`},
		"proc_operate_req[0].spec": {gse.ReadOperateMulti, `{"proc_operate_req": [{` + head +
			`, "op_type": 0, "spec": ` + identity + `}]}`},
		"spec ": {gse.ReadOperateRegistered, `{` + head + `, "op_type": 1, "spec": ` + identity +
			`}`},
		" spec": {register, `{` + head + `, "spec": ` + identity + `}`},
		"process_infos[0]": {
			gse.ReadJobOperate,
			`{"bk_biz_id": 1, "op_type": 2, "process_infos": [{"setup_path": "/x", "proc_name": "d", "pid_path": "/p", "value_key": "k",
			"func_id": "` + long + `", "ip_list": [{"ip": "10.0.0.1", "bk_cloud_id": 0}]}]}`,
		},
	} {
		_, err := c.read([]byte(c.body))
		if want := strings.TrimSpace(field) + " is 524"; err == nil || !strings.HasPrefix(err.Error(), want) ||
			!strings.HasSuffix(err.Error(), fmt.Sprintf(" bytes long in all: expected at most %d", process.MaxSpec)) {
			t.Errorf("%s: %.200v", field, err)
		}
		if _, err := c.read([]byte(strings.ReplaceAll(c.body, long, long[:4000]))); err != nil {
			t.Errorf("%s of 4000 bytes: %v", field, err)
		}
	}
}
