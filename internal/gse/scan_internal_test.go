package gse

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// bodies are some of all kinds.
func bodies() []string {
	return []string{
		`{}`, `null`, `[]`, `"x"`, `1`, `true`, ``, `{`, `{"proc_operate_req"`, `{"a":1,}`, `[1,]`, `{"a" 1}`, `{1:2}`, "{\"a\":\"\x01\"}", `{} {}`, `nul`, ` { } `,
		`{"proc_operate_req":[{"meta":{"namespace":"n","name":"p","labels":{"a": [1, 2]}},"op_type":"0","hosts":[{"ip":"10.0.0.1","bk_cloud_id":0,"bk_supplier_id":"0"},null],
			"agent_id_list":["a",1,null,{}],"spec":{"identity":{"user":"root"}},"x":[{"y":-1.5e+7}]}]}`,
		`{"PROC_OPERATE_REQ":[{"Meta":{"NameSpace":"n","\u006eame":"p"},"op_type":1.0}]}`,
		`{"proc_operate_req":null}`, `{"proc_operate_req":{}}`, `{"proc_operate_req":[1,"x"]}`, `{"proc_operate_req":[null,{"meta":"x"},{"hosts":1}]}`,
		`{"proc_operate_req":[{"meta":{"name":"a"},"meta":{"namespace":"b"},"meta":{"name":"c"}}]}`, `{"proc_operate_req":[{"meta":{"name":"a"},"meta":null}]}`,
		`{"proc_operate_req":[{"agent_id_list":"x","meta":[],"hosts":[1]}]}`, `{"proc_operate_req":[{"meta":{"labels":null,"namespace":{"a":"\ud800\udc00\""}}}]}`,
		`{"proc_operate_req":[{"op_type":01}]}`, `{"proc_operate_req":[{"op_type":1.}]}`, `{"proc_operate_req":[{"op_type":-}]}`, `{"proc_operate_req":[{"op_type":1e}]}`,
		`{"proc_operate_req":[{"meta":{"name":"\x"}}]}`, `{"proc_operate_req":[{"meta":{"name":"\u12g4"}}]}`, "{\"proc_operate_req\":[{\"meta\":{\"name\":\"\xff\"}}]}",
		`{"identity":{"proc_name":"p","setup_path":1,"pid_path":null,"config_path":"","log_path":[],"user":{}},"control":{"start_cmd":"a","stop_cmd":"b","restart_cmd":"c",
			"reload_cmd":"d","kill_cmd":"e","version_cmd":"f","health_cmd":"g"},"resource":{"cpu":1.5,"mem":"2","fd":"3","disk":4,"net":5},"monitor_policy":{"auto_type":1},
			"alive_monitor_policy":{"auto_type":0,"start_check_secs":1,"stop_check_secs":2,"start_retries":3,"start_interval":4,"op_timeout":5,"crontab_rule":"a","crotab_rule":"b"},
			"warn_report_policy":{"report_id":7},"configmap":[{"path":"/a","md5":"b"},{}]}`,
		`{"identity":[],"control":7}`, `{"configmap":{"path":"a"}}`, `{"configmap":["a"]}`, `{"warn_report_policy":"x"}`, `{"resource":false,"identity":null}`,
		`{"alive_monitor_policy":"x"}`, `{"monitor_policy":1}`, `{"ſpec":1,"meta":{"ſ":1,"K":2}}`, `{"control":{"\u017ftart_cmd":"x","\u212aill_cmd":"y"}}`,
	}
}

// agree checks that a body is read as encoding/json reads it.
func agree[T any](t *testing.T, body []byte, read func(*T, *scanner)) {
	t.Helper()
	var want, got T
	if got, want := Valid(body), json.Valid(body); got != want {
		t.Errorf("%.300q is valid: %v, want %v", body, got, want)
	}
	wantErr := json.Unmarshal(body, &want)
	gotErr := scan(body, func(s *scanner) { read(&got, s) })
	var wantShape, gotShape *json.UnmarshalTypeError
	if errors.As(wantErr, &wantShape) && errors.As(gotErr, &gotShape) {
		// An embedded struct has no name on the wire.
		if w, g := strings.Replace(wantShape.Field, "targets.", "", 1)+": "+wantShape.Value, gotShape.Field+": "+gotShape.Value; w != g {
			t.Errorf("%.300q as %T: %s, want %s", body, got, g, w)
		}
		return
	}
	if (wantErr == nil) != (gotErr == nil) || wantErr != nil && wantErr.Error() != gotErr.Error() {
		t.Errorf("%.300q as %T: error %v, want %v", body, got, gotErr, wantErr)
	}
	if wantErr != nil {
		return
	}
	if d := cmp.Diff(want, got, cmp.Exporter(func(reflect.Type) bool { return true }), cmpopts.EquateEmpty()); d != "" {
		t.Errorf("%.300q as %T (-want +got):\n%s", body, got, d)
	}
}

func TestScannerReadsAsEncodingJSON(t *testing.T) {
	deep := strings.Repeat("[", deepest) + strings.Repeat("]", deepest)
	for _, body := range append(bodies(), deep, "["+deep+"]", `{"x":`+deep+`}`) {
		agree(t, []byte(body), (*multiBody).read)
		agree(t, []byte(body), (*operateBody).read)
		agree(t, []byte(body), (*specBody).read)
	}
}

// FuzzScanner: whatever a body holds, it is read as encoding/json reads it. Where a list comes twice encoding/json leaves in the second
// what was in the first, which nobody can want.
func FuzzScanner(f *testing.F) {
	for _, body := range bodies() {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		lower := strings.ToLower(string(body))
		for _, list := range []string{"proc_operate_req", "hosts", "agent_id_list", "configmap"} {
			if strings.Count(lower, list) > 1 || strings.Contains(lower, `\u`) {
				return
			}
		}
		agree(t, body, (*multiBody).read)
		agree(t, body, (*operateBody).read)
		agree(t, body, (*specBody).read)
	})
}
