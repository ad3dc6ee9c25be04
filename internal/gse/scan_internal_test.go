package gse

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"reflect"
	"strings"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// bodies are some of all kinds.
func bodies() []string {
	return []string{
		`{}`, `null`, `[]`, `"x"`, `1`, `true`, ``, `{`, `{"proc_operate_req"`, `{"a":1,}`, `[1,]`, `{"a" 1}`, `{1:2}`,
		"{\"a\":\"\x01\"}", `{} {}`, `nul`, ` { } `,
		`{"proc_operate_req":[{"meta":{"namespace":"n","name":"p","labels":{"a": [1, 2]}},"op_type":"0","hosts":[{"ip":"10.0.0.1","bk_cloud_id":0,"bk_supplier_id":"0"},null],
			"agent_id_list":["a",1,null,{}],"spec":{"identity":{"user":"root"}},"x":[{"y":-1.5e+7}]}]}`,
		`{"PROC_OPERATE_REQ":[{"Meta":{"NameSpace":"n","\u006eame":"p"},"op_type":1.0}]}`,
		`{"proc_operate_req":null}`, `{"proc_operate_req":{}}`, `{"proc_operate_req":[1,"x"]}`,
		`{"proc_operate_req":[null,{"meta":"x"},{"hosts":1}]}`,
		`{"proc_operate_req":[{"meta":{"name":"a"},"meta":{"namespace":"b"},"meta":{"name":"c"}}]}`,
		`{"proc_operate_req":[{"meta":{"name":"a"},"meta":null}]}`,
		`{"op_type":2,"OP_TYPE":0,"Meta":{"name":"x"},"HOSTS":[]}`,
		`{"hosts":1,"meta":2,"hosts":[{"ip":"a","ip":"b"}],"meta":{"name":"n"}}`,
		`{"hosts":[{"ip":"a","bk_cloud_id":1}],"hosts":[{"ip":"b"}]}`, `{"hosts":[1],"hosts":null}`,
		`{"meta":{"labels":{"a":1,"a":2}},"spec":1,"spec":{}}`,
		`{"meta":1,"meta":[],"met\u0061":{"name":"n"},"agent_id_list":{}}`,
		`{"process_infos":[{"ip_list":[{"ip":"a"}]}],"process_infos":[{"IP_LIST":[]}]}`,
		`{"proc_operate_req":[{"agent_id_list":"x","meta":[],"hosts":[1]}]}`,
		`{"proc_operate_req":[{"meta":{"labels":null,"namespace":{"a":"\ud800\udc00\""}}}]}`,
		`{"proc_operate_req":[{"op_type":01}]}`, `{"proc_operate_req":[{"op_type":1.}]}`,
		`{"proc_operate_req":[{"op_type":-}]}`, `{"proc_operate_req":[{"op_type":1e}]}`,
		`{"proc_operate_req":[{"meta":{"name":"\x"}}]}`, `{"proc_operate_req":[{"meta":{"name":"\u12g4"}}]}`,
		"{\"proc_operate_req\":[{\"meta\":{\"name\":\"\xff\"}}]}",
		`{"identity":{"proc_name":"p","setup_path":1,"pid_path":null,"config_path":"","log_path":[],"user":{}},"control":{"start_cmd":"a","stop_cmd":"b","restart_cmd":"c",
			"reload_cmd":"d","kill_cmd":"e","version_cmd":"f","health_cmd":"g"},"resource":{"cpu":1.5,"mem":"2","fd":"3","disk":4,"net":5},"monitor_policy":{"auto_type":1},
			"alive_monitor_policy":{"auto_type":0,"start_check_secs":1,"stop_check_secs":2,"start_retries":3,"start_interval":4,"op_timeout":5,"crontab_rule":"a","crotab_rule":"b"},
			"warn_report_policy":{"report_id":7},"configmap":[{"path":"/a","md5":"b"},{}]}`,
		`{"identity":[],"control":7}`, `{"configmap":{"path":"a"}}`, `{"configmap":["a"]}`,
		`{"warn_report_policy":"x"}`, `{"resource":false,"identity":null}`,
		`{"alive_monitor_policy":"x"}`, `{"monitor_policy":1}`, `{"ſpec":1,"meta":{"ſ":1,"K":2}}`,
		`{"control":{"\u017ftart_cmd":"x","\u212aill_cmd":"y"}}`,
	}
}

// plain is what a body says to whoever reads it with nothing but maps: names count letter by letter, and of a repeated
// one the last value. Names that only look like one of T's are left out, since encoding/json would take them for it.
func plain[T any](body []byte) ([]byte, error) {
	known := map[string]string{}
	namesOf(reflect.TypeFor[T](), known)
	var v any
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	err := d.Decode(&v)
	if err == nil && len(bytes.TrimLeft(body[d.InputOffset():], " \t\r\n")) > 0 {
		err = errors.New("more than one value")
	}
	if err != nil {
		return nil, err
	}
	clean(v, known)
	return json.Marshal(v)
}

// namesOf collects the names of the fields of a type, by their folded form.
func namesOf(t reflect.Type, into map[string]string) {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return
	}
	for f := range t.Fields() {
		if name := f.Tag.Get("json"); name != "" {
			into[fold(name)] = name
		}
		namesOf(f.Type, into)
	}
}

// fold is the same for all texts that encoding/json takes for the same name.
func fold(name string) string {
	return strings.Map(func(r rune) rune {
		for f := unicode.SimpleFold(r); f != r; f = unicode.SimpleFold(f) {
			r = min(r, f)
		}
		return r
	}, name)
}

func clean(v any, known map[string]string) {
	switch v := v.(type) {
	case map[string]any:
		for name, value := range v {
			if exact, ok := known[fold(name)]; ok && exact != name {
				delete(v, name)
				continue
			}
			clean(value, known)
		}
	case []any:
		for _, value := range v {
			clean(value, known)
		}
	}
}

// agree checks that a body is read as one who reads it with maps would understand it.
func agree[T any](t *testing.T, body []byte, read func(*T, *scanner)) {
	t.Helper()
	var want, got T
	text, err := plain[T](body)
	if got, want := Check(body) == nil, err == nil; got != want {
		t.Errorf("%.300q is JSON: %v, want %v", body, got, want)
	}
	gotErr := scan(body, func(s *scanner) { read(&got, s) })
	if err == nil {
		err = json.Unmarshal(text, &want)
	}
	if (gotErr == nil) != (err == nil) {
		t.Errorf("%.300q as %T: error %v, want %v", body, got, gotErr, err)
	}
	if err != nil || gotErr != nil {
		return
	}
	known := map[string]string{}
	namesOf(reflect.TypeFor[T](), known)
	same := cmp.Options{
		cmp.Exporter(func(reflect.Type) bool { return true }),
		cmp.FilterPath(func(p cmp.Path) bool { return p.Last().Type() != reflect.TypeFor[json.RawMessage]() },
			cmpopts.EquateEmpty()),
		// What could not be read is shown as it was written, which maps do not keep.
		cmp.FilterPath(func(p cmp.Path) bool { return p.Last().String() == ".raw" }, cmp.Ignore()),
		cmp.Transformer("json", func(m json.RawMessage) (v any) {
			_ = json.Unmarshal(m, &v)
			clean(v, known)
			return v
		}),
	}
	if d := cmp.Diff(want, got, same); d != "" {
		t.Errorf("%.300q as %T (-want +got):\n%s", body, got, d)
	}
}

func agreeAll(t *testing.T, body []byte) {
	t.Helper()
	agree(t, body, (*multiBody).read)
	agree(t, body, (*operateBody).read)
	agree(t, body, (*specBody).read)
	agree(t, body, (*groupBody).read)
	agree(t, body, (*syncBody).read)
	agree(t, body, (*jobBody).read)
}

func TestScannerReadsAsMapsDo(t *testing.T) {
	deep := strings.Repeat("[", deepest) + strings.Repeat("]", deepest)
	for _, body := range append(bodies(), deep, "["+deep+"]", `{"x":`+deep+`}`) {
		agreeAll(t, []byte(body))
	}
}

// TestEveryFieldHasAReader: a name that a struct's tags have is read.
func TestEveryFieldHasAReader(t *testing.T) {
	agreeAll(t, []byte(everything[multiBody]()))
	agreeAll(t, []byte(everything[operateBody]()))
	agreeAll(t, []byte(everything[specBody]()))
	agreeAll(t, []byte(everything[groupBody]()))
	agreeAll(t, []byte(everything[syncBody]()))
	agreeAll(t, []byte(everything[jobBody]()))
}

// everything is a body in which every field of a type is there.
func everything[T any]() string {
	text, err := json.Marshal(full(reflect.TypeFor[T]()))
	if err != nil {
		panic(err)
	}
	return string(text)
}

func full(t reflect.Type) any {
	switch {
	case t.Kind() == reflect.Pointer:
		return full(t.Elem())
	case t.Kind() == reflect.Slice && t != reflect.TypeFor[json.RawMessage]():
		return []any{full(t.Elem())}
	case t.Kind() != reflect.Struct || t == reflect.TypeFor[Str]() || t == reflect.TypeFor[Int]() ||
		t == reflect.TypeFor[Float]():
		return "7"
	}
	object := map[string]any{}
	for f := range t.Fields() {
		if name := f.Tag.Get("json"); name != "" {
			object[name] = full(f.Type)
		} else if inner, ok := full(f.Type).(map[string]any); ok {
			maps.Copy(object, inner)
		}
	}
	return object
}

// FuzzScanner: whatever a body holds, it is read as one who reads it with maps would understand it.
func FuzzScanner(f *testing.F) {
	for _, body := range bodies() {
		f.Add([]byte(body))
	}
	for _, body := range []string{
		everything[multiBody](), everything[specBody](), everything[groupBody](),
		everything[syncBody](), everything[jobBody](),
	} {
		f.Add([]byte(body))
	}
	f.Fuzz(agreeAll)
}
