package processfile

import (
	"cmp"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"drover/internal/process"
	"drover/internal/spec"
)

// Canonical returns a process of a file as servers and agents store it: without hosts and copies (see Expand), and
// without the fields that have their default. Processes that mean the same are then equal. The process must be without
// faults (Check).
func Canonical(f spec.Spec) spec.Spec {
	f.Hosts, f.Copies = spec.Hosts{}, nil
	f.Directory = cmp.Or(f.Directory, spec.DefaultDirectory)
	if f.Directory == spec.DefaultDirectory && f.Compat == nil { // GSE and JOB always name it
		f.Directory = ""
	}
	if mask, ok := f.Umasked(); ok {
		f.Umask = fmt.Sprintf("%03o", mask)
	}
	f.Capabilities = f.Execution().Capabilities
	if f.StopSignals != nil && slices.Equal(f.StopSignals, spec.DefaultSignals()) {
		f.StopSignals = nil
	}
	v := reflect.ValueOf(&f).Elem()
	bare("", v)
	if t := f.Timeouts; t != nil {
		dependent(&t.Reload, f.ReloadLimit)
		dependent(&t.Version, f.VersionLimit)
	}
	if h := f.Health; h != nil {
		dependent(&h.Timeout, f.HealthLimit)
	}
	if r := f.Restart; r != nil && slices.Equal(r.SuccessCodes, []spec.Status{"0"}) {
		r.SuccessCodes = nil
	}
	if r := f.Restart; r != nil && len(r.NeverOn) == 0 {
		r.NeverOn = nil
	}
	empty(v)
	if f.Compat != nil {
		f.Compat = new(f.Compat.Defaulted())
	}
	return f
}

// FaultsOf returns what makes a stored spec unfit for an operation, with the fields of files.
func FaultsOf(s *spec.Spec, op process.Op) (faults Faults) {
	seen := map[string]bool{}
	for _, f := range process.FileFaults(s, op) {
		if !seen[f.Field] {
			seen[f.Field] = true
			faults = append(faults, Fault{Path: f.Field, Text: strings.TrimPrefix(f.Text, f.Field+" ")})
		}
	}
	return faults
}

// dependent makes a limit nil that would be the same without the field. Its default depends on the limit of commands.
func dependent(limit **spec.Duration, counts func() time.Duration) {
	value, counted := *limit, counts()
	if *limit = nil; counts() != counted {
		*limit = value
	}
}

// defaultValues are the defaults of fields, by path, without those of free texts and of limits that are dependent.
//
//nolint:gochecknoglobals // it never changes
var defaultValues = sync.OnceValue(func() map[string]string {
	all := map[string]string{}
	for _, f := range Fields() {
		if f.Default != "none" { // a command may have this name
			all[f.Path] = f.Default
		}
	}
	for _, path := range []string{"timeouts.reload", "timeouts.version", "health.timeout"} {
		delete(all, path)
	}
	eachField("", reflect.TypeFor[spec.Spec](), func(path string, f reflect.StructField) {
		if f.Type == reflect.TypeFor[string]() && choicesOf()[path] == nil {
			delete(all, path)
		}
	})
	return all
})

// bare makes the fields zero that have their default. It copies each part that it changes.
func bare(path string, v reflect.Value) {
	for f, value := range v.Fields() {
		at := strings.TrimPrefix(path+"."+tag(f), ".")
		of := value.Type()
		if of.Kind() == reflect.Pointer && of.Elem().Kind() == reflect.Struct && !isSpecial(of.Elem()) {
			if !value.IsNil() {
				part := reflect.New(of.Elem())
				part.Elem().Set(value.Elem())
				bare(at, part.Elem())
				value.Set(part)
			}
			continue
		}
		if isDefault(value, defaultValues()[at]) {
			value.SetZero()
		}
	}
}

// isDefault reports whether a value is the one that a text of Field.Default stands for. Most texts stand for none.
func isDefault(value reflect.Value, text string) bool {
	t := value.Type()
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if text == "" || value.IsZero() || t.Kind() == reflect.Slice {
		return false
	}
	p := reflect.New(t)
	if json.Unmarshal([]byte(text), p.Interface()) != nil {
		quoted, _ := json.Marshal(text) // a text always encodes
		if json.Unmarshal(quoted, p.Interface()) != nil {
			return false
		}
	}
	if value.Kind() == reflect.Pointer {
		value = value.Elem()
	}
	return value.Equal(p.Elem())
}

// empty makes the parts of a process nil that say nothing.
func empty(v reflect.Value) {
	for f, value := range v.Fields() {
		part := value.Kind() == reflect.Pointer && value.Type().Elem().Kind() == reflect.Struct && f.Name != "Compat"
		says := f.Name == "Schedule" || f.Name == "Reload" // an empty schedule of GSE says that a process is periodic
		if part && !says && !value.IsNil() && value.Elem().IsZero() || value.Kind() == reflect.Map && value.Len() == 0 {
			value.SetZero()
		}
	}
}
