package statusjson

import (
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"

	"drover/internal/process"
)

// TestStatusIsReadAsItWasWritten reads random statuses, one after another with one reader, and compares with
// encoding/json.
func TestStatusIsReadAsItWasWritten(t *testing.T) {
	texts := []string{
		"", "running", "S", "nginx: {worker}, \"a\"", `back\slash`, "a:b", "日本", "tab\tend", "{", "}",
		"<&>", "a,b", "\xff",
	}
	random := rand.New(rand.NewPCG(1, 2))
	var reader Reader
	for range 5000 {
		var s process.Status
		fill(t, random, texts, reflect.ValueOf(&s).Elem())
		text, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		var want process.Status
		if err := json.Unmarshal(text, &want); err != nil {
			t.Fatal(err)
		}
		got, err := reader.Read(text)
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Fatalf("%s: %v\n%s", text, err, diff)
		}
	}
}

// fill sets about half of the fields.
func fill(t *testing.T, random *rand.Rand, texts []string, v reflect.Value) {
	t.Helper()
	if v.Kind() != reflect.Struct && random.IntN(2) == 0 {
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for _, field := range v.Fields() {
			fill(t, random, texts, field)
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(t, random, texts, v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range 2 {
			fill(t, random, texts, v.Index(i))
		}
	case reflect.String:
		v.SetString(texts[random.IntN(len(texts))])
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Uint64:
		v.SetUint(random.Uint64() >> 1)
	case reflect.Int, reflect.Int64:
		v.SetInt(random.Int64() - random.Int64())
	case reflect.Float64:
		v.SetFloat([]float64{0.5, -3, 1e-9, 1e30, 99.99}[random.IntN(5)])
	default:
		t.Fatalf("no value for a %s", v.Kind())
	}
}

// TestStatusTakesTheShortRoad makes sure that a new field of a status is not forgotten: it would be read, and slowly.
func TestStatusTakesTheShortRoad(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	var s process.Status
	for range 64 { // each sets what the ones before it have left out
		fill(t, random, []string{"plain"}, reflect.ValueOf(&s).Elem())
	}
	s.Instance.Halted = 0 // it has no JSON
	text, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	var r Reader
	var got process.Status
	if !eachMember(text, func(key, value []byte) bool { return r.field(&got, key, value) }) {
		t.Errorf("%s is not on the short road", text)
	}
	if diff := cmp.Diff(s, got); diff != "" {
		t.Error(diff)
	}
}

// TestBrokenStatusIsRefused gives what no status can be.
func TestBrokenStatusIsRefused(t *testing.T) {
	for _, text := range []string{
		"", "{", "}", "{}}", `{"known"}`, `{"known":}`, `{"known":true`, `{"known":true,}`, `{"known":true}x`,
		`{"known":yes}`, `{"pid":1e3x}`,
		`{"state":"running}`, `{"state":running}`, `{"instance":{"pid":1}`, `{"instance":{"pid":"1"}}`, `[]`,
		`{"registered_at":1.5}`,
	} {
		var r Reader
		var want process.Status
		if json.Unmarshal([]byte(text), &want) == nil {
			t.Errorf("%q is a status", text)
		}
		if got, err := r.Read([]byte(text)); err == nil {
			t.Errorf("%q is read as %+v", text, got)
		}
	}
}
