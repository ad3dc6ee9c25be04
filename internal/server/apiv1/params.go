package apiv1

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "drover/api/v1"
	"drover/internal/process"
	"drover/internal/processfile"
	"drover/internal/selector"
	"drover/internal/server/plan"
	"drover/internal/server/store"
	"drover/internal/wildcard"
)

// The sizes of a page.
const (
	defaultPage = 100
	maxPage     = 1000
)

// The bounds of a filter, because each pattern is compared with every host or every process.
const (
	maxValue     = 2048
	mostPatterns = 32
)

// params reads the query of a call. It records the parameters that the endpoint reads, so that done can reject a
// misspelt filter.
type params struct {
	values url.Values
	read   map[string]bool
	fault  error
	// cursors seals places in the list that the call returns.
	cursors *cursors
	listed  string
}

func (p *params) fail(err error) { p.fault = together(p.fault, err) }

// list returns all values of a parameter.
func (p *params) list(name string) []string {
	p.read[name] = true
	patterns := 0
	for _, v := range p.values[name] {
		if len(v) > maxValue {
			p.fail(invalid(name, "is %d bytes long: expected at most %d", len(v), maxValue))
		}
		if wildcard.IsPattern(v) {
			patterns++
		}
	}
	if patterns > mostPatterns {
		p.fail(invalid(name, "has %d patterns: expected at most %d", patterns, mostPatterns))
	}
	return p.values[name]
}

// text returns the value of a parameter, or nothing.
func (p *params) text(name string) string {
	values := p.list(name)
	if len(values) == 0 {
		return ""
	}
	if len(values) > 1 {
		p.fail(invalid(name, "is given %d times: expected once", len(values)))
	}
	return values[0]
}

// choice returns a value that is one of a few.
func (p *params) choice(name string, of ...string) string {
	v := p.text(name)
	if v != "" && !slices.Contains(of, v) {
		p.fail(invalid(name, "is %.40q: expected %s", v, process.OrList(of)))
	}
	return v
}

// flag returns a boolean, nil if it is missing.
func (p *params) flag(name string) *bool {
	v := p.choice(name, "true", "false")
	if v == "" {
		return nil
	}
	yes := v == "true"
	return &yes
}

// limit returns the size of the page.
func (p *params) limit() int {
	v := p.text("limit")
	if v == "" {
		return defaultPage
	}
	n, err := strconv.Atoi(v)
	if err != nil || n < 1 || n > maxPage {
		p.fail(invalid("limit", "is %.40q: expected 1 to %d", v, maxPage))
	}
	return n
}

// wait returns how long a call may wait, given in seconds.
func (p *params) wait() time.Duration {
	v := p.text("wait")
	if v == "" {
		return 0
	}
	seconds, err := strconv.ParseFloat(v, 64)
	if err != nil || !(seconds >= 0 && seconds <= maxWait.Seconds()) { // rejects NaN too
		p.fail(invalid("wait", "is %.40q: expected 0 to %.0f seconds", v, maxWait.Seconds()))
		return 0
	}
	return time.Duration(seconds * float64(time.Second))
}

// time returns a time in RFC 3339, the zero time if it is missing.
func (p *params) time(name string) time.Time {
	v := p.text(name)
	if v == "" {
		return time.Time{}
	}
	t, err := time.Parse(time.RFC3339, v)
	if err != nil {
		p.fail(invalid(name, "is %.40q: expected a time such as 2026-11-20T10:30:00Z", v))
	}
	return t
}

// cursor reads the end of the previous page into at. On the first page it does not change at.
func (p *params) cursor(at any) {
	v := p.text("cursor")
	if v == "" {
		return
	}
	if err := p.cursors.open(p.listed, v, at); err != nil {
		p.fail(invalid("cursor", "%v", err))
	}
}

// page reads the size of the page, and the end of the previous page into at. It must be the last read of a parameter.
func (p *params) page(at any) (limit int, err error) {
	limit = p.limit()
	p.cursor(at)
	return limit, p.done()
}

// done returns the first fault, or the fault that a parameter is unknown. Call it after all parameters were read.
func (p *params) done() error {
	var unknown []string
	for name := range p.values {
		if !p.read[name] {
			unknown = append(unknown, name)
		}
	}
	slices.Sort(unknown)
	for _, name := range unknown {
		p.fail(invalid(name, "there is no such parameter"))
	}
	return p.fault
}

// behind returns the part of an ordered list after a place. The list need not have an element at that place.
func behind[T any](list []T, before func(T) bool) []T {
	if i := slices.IndexFunc(list, before); i >= 0 {
		return list[i:]
	}
	return nil
}

// pageOf returns a page. last is the place of its end; nil if nothing follows.
func pageOf[T any](c *call, items []T, last any) v1.Page[T] {
	if items == nil {
		items = []T{}
	}
	p := v1.Page[T]{Items: items}
	if last != nil {
		p.NextCursor = c.params.cursors.seal(c.params.listed, last)
	}
	return p
}

// viewed applies view to each row.
func viewed[T, V any](rows []T, view func(T) V) []V {
	views := make([]V, len(rows))
	for i, row := range rows {
		views[i] = view(row)
	}
	return views
}

// pageOfRows returns the page of the rows. If there are fewer rows than limit, it is the last page. place returns the
// place of a row.
func pageOfRows[T, V any](c *call, rows []T, limit int, view func(T) V, place func(T) any) v1.Page[V] {
	if len(rows) < limit {
		return pageOf(c, viewed(rows, view), nil)
	}
	return pageOf(c, viewed(rows, view), place(rows[len(rows)-1]))
}

// cursors seals the places where pages end, because a place may name a row that the caller may not see. All servers of
// a fleet have the same key.
type cursors struct{ aead cipher.AEAD }

// newCursors returns cursors with a key that is derived from a secret of the fleet.
func newCursors(secret []byte) *cursors {
	key, err := hkdf.Key(sha256.New, secret, nil, "drover cursor", 32)
	if err != nil {
		panic(err) // not reached: HKDF supports this key length
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		panic(err) // not reached: the key has a length of AES
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		panic(err) // not reached: AES has its block size
	}
	return &cursors{aead}
}

// seal returns a place in a list as a cursor that is valid for that list only.
func (c *cursors) seal(list string, place any) string {
	// a plain struct always encodes
	text, _ := json.Marshal(place)
	//nolint:gosec // this AEAD creates a random nonce itself
	return base64.RawURLEncoding.EncodeToString(c.aead.Seal(nil, nil, text, []byte(list)))
}

// open reads a cursor of a list into the place.
func (c *cursors) open(list, cursor string, place any) error {
	data, err := base64.RawURLEncoding.DecodeString(cursor)
	if err == nil {
		data, err = c.aead.Open(nil, nil, data, []byte(list))
	}
	if err == nil {
		err = json.Unmarshal(data, place)
	}
	if err != nil {
		return errors.New("expected a value of next_cursor")
	}
	return nil
}

func someSecret() []byte {
	secret := make([]byte, 32)
	rand.Read(secret) // never fails
	return secret
}

// pidsOf reads the pids of the copies to take over.
func pidsOf(c *call, wish process.Beside) (map[string]plan.PID, error) {
	pids := map[string]plan.PID{}
	for _, word := range c.params.list("pid") {
		name, text, _ := strings.Cut(word, ":")
		pid, ok := plan.ReadPID(text)
		switch {
		case !ok || name == "":
			return nil, invalid("pid", "has %q: expected PROCESS:PID:BEGAN", word)
		case wish != process.TakeOver && wish != process.Adopt:
			return nil, invalid("pid", "stands without take_over")
		}
		pids[name] = pid
	}
	return pids, nil
}

// peersOf reads the processes of other namespaces that the caller brings by calls of their own.
func peersOf(c *call) (map[process.ID]bool, error) {
	peers := map[process.ID]bool{}
	for _, word := range c.params.list("peer") {
		namespace, name, _ := strings.Cut(word, "/")
		id := process.ID{Namespace: namespace, Name: name}
		if process.ValidateID(id) != nil {
			return nil, invalid("peer", "has %.100q: expected NAMESPACE/NAME", word)
		}
		peers[id] = true
	}
	return peers, nil
}

// besideOf reads what a start does beside a copy that drover does not watch.
func besideOf(c *call) (process.Beside, error) {
	wish := map[string]process.Beside{
		"true": process.TakeOver, "only": process.Adopt,
	}[c.params.choice("take_over", "true", "only", "false")]
	switch beside := c.params.flag("beside"); {
	case beside == nil || !*beside:
		return wish, nil
	case wish != process.Refuse:
		return "", invalid("beside", "stands beside take_over: expected one of them")
	}
	return process.StartBeside, nil
}

// problem is a rejection, with details that only the server needs.
type problem struct {
	v1.Problem
	// cause is for the log; it is set if the fault is the server's.
	cause error
	// nothing tells that a pattern or an expression has found nothing.
	nothing bool
	// broad tells that a request is for more hosts than one person may change at once.
	broad bool
	// retryAfter is in seconds; 0 means that the reply does not have it.
	retryAfter int
}

// Error returns the text for the caller.
func (p *problem) Error() string { return p.Detail }

func problemf(status int, format string, args ...any) *problem {
	return &problem{Problem: v1.Problem{
		Type: "about:blank", Title: http.StatusText(status), Status: status, Detail: fmt.Sprintf(format, args...),
	}}
}

// invalid is the problem of one wrong field of a request.
func invalid(field, format string, args ...any) *problem {
	detail := fmt.Sprintf(format, args...)
	p := problemf(http.StatusUnprocessableEntity, "%s: %s", field, detail)
	p.Fields = []v1.FieldError{{Field: field, Detail: detail}}
	return p
}

// together makes one problem of problems of fields, so that a caller learns of all faults at once; nil for none.
// Another error stands alone.
func together(faults ...error) error {
	var all *problem
	for _, fault := range faults {
		p, ok := errors.AsType[*problem](fault)
		switch {
		case fault == nil:
		case !ok || len(p.Fields) == 0:
			return fault
		case all == nil:
			all = p
		default:
			all.Detail += "; " + p.Detail
			all.Fields = append(all.Fields, p.Fields...)
		}
	}
	if all == nil {
		return nil
	}
	return all
}

// failure is the problem of a failed server operation. The caller gets the cause only if the database is away or its
// disk is full, because an operator can remedy that.
func failure(what string, cause error) *problem {
	p := problemf(http.StatusInternalServerError, "cannot %s: try again later", what)
	if errors.Is(cause, store.ErrAway) {
		p = problemf(http.StatusServiceUnavailable, "cannot %s: the server's database is away; try again later", what)
	} else if full, ok := errors.AsType[*store.FullError](cause); ok {
		p = problemf(http.StatusInsufficientStorage,
			"cannot %s: %v; free space there; until then drover accepts only stop, kill and unhost", what, full)
	}
	p.cause = fmt.Errorf("cannot %s: %w", what, cause)
	return p
}

// problemOf returns the problem in an error.
func problemOf(err error) *problem {
	if p, ok := errors.AsType[*problem](err); ok {
		return p
	}
	return failure("answer the call", err)
}

// stored turns an error of the store into a problem about the named thing.
func stored(err error, kind, name string) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, store.ErrNotFound):
		return problemf(http.StatusNotFound, "there is no %s %q", kind, name)
	case errors.Is(err, store.ErrExists):
		return problemf(http.StatusConflict, "%s %q exists already", kind, name)
	default:
		if p, ok := errors.AsType[*problem](err); ok {
			return p
		}
		return failure("reach the "+kind, err)
	}
}

// refuse writes the reply to a rejected call.
func refuse(w http.ResponseWriter, c *call, err error) {
	p := problemOf(err)
	body := p.Problem
	body.RequestID = c.Audit.RequestID
	if p.Status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", `X-Bkapi-Authorization realm="drover"`)
	}
	if p.retryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(p.retryAfter))
	}
	write(w, p.Status, "application/problem+json", body)
}

// write writes a JSON reply.
func write(w http.ResponseWriter, status int, contentType string, v any) {
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	_ = e.Encode(v) // the peer is gone; there is no one to report to
}

// decodeProblem turns an error of encoding/json about a body into a problem.
func decodeProblem(err error) error {
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok && wrong.Field != "" {
		return invalid(wrong.Field, "is a JSON %s: expected %s", wrong.Value, expected(wrong.Type))
	}
	if large, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return problemf(http.StatusRequestEntityTooLarge, "the body is larger than %d MB", large.Limit>>20)
	}
	_, malformed := errors.AsType[*json.SyntaxError](err)
	if _, typed := errors.AsType[*json.UnmarshalTypeError](err); malformed || typed ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return problemf(http.StatusBadRequest, "the body is not a JSON object: %v", err)
	}
	return problemf(http.StatusUnprocessableEntity, "a value of the body is not valid: %v", err) // says its own type
}

// expected describes the JSON that a field of a Go type accepts.
func expected(t reflect.Type) string {
	for t.Kind() == reflect.Pointer { // of a type with its own reader
		t = t.Elem()
	}
	if t == reflect.TypeFor[v1.Duration]() {
		return "a duration such as 60s"
	}
	switch t.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64, reflect.Uint, reflect.Uint8,
		reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return "a whole number"
	case reflect.Float32, reflect.Float64:
		return "a number"
	case reflect.Slice, reflect.Array:
		return "an array"
	case reflect.String:
		return "a string"
	default:
		return "an object"
	}
}

// invalidPart makes a problem of an error of package process, which begins with a field.
func invalidPart(before, cut string, err error) error {
	field, detail, _ := strings.Cut(strings.TrimPrefix(err.Error(), cut), " ")
	return invalid(before+field, "%s", detail)
}

// invalidFile makes one problem of all faults of a file or a part of it.
func invalidFile(at string, err error) error {
	faults, ok := errors.AsType[processfile.Faults](err)
	if !ok {
		return invalid(at, "%v", err)
	}
	texts, list := make([]string, 0, len(faults)), make([]v1.FieldError, 0, len(faults))
	for _, f := range faults {
		e := v1.FieldError{Field: strings.Trim(at+"."+f.Path, "."), Detail: f.Text}
		texts, list = append(texts, strings.TrimPrefix(e.Field+": "+e.Detail, ": ")), append(list, e)
	}
	p := problemf(http.StatusUnprocessableEntity, "%s", strings.Join(texts, "; "))
	p.Fields = list
	return p
}

// faulty is invalidFile for a list that may be empty.
func faulty(faults processfile.Faults) error {
	if len(faults) == 0 {
		return nil
	}
	return invalidFile("", faults)
}

// hosts reads the parameters that select hosts.
func (p *params) hosts() hostChoice {
	return hostChoice{names: p.list("host"), selector: p.selector("selector")}
}

// chosenHosts returns the hosts that a body chooses by names or by an expression, and tells each fault to fail.
func chosenHosts(names []string, expression *string, fail func(path string, err error)) (choice hostChoice) {
	if len(names) == 0 && expression == nil {
		fail("hosts", errors.New("is missing: expected hosts, or select"))
	}
	if len(names) > maxLabelled {
		fail("hosts", fmt.Errorf("has %d entries: expected at most %d", len(names), maxLabelled))
	}
	choice.names = names
	if expression != nil {
		var err error
		if choice.selector, err = selector.Parse(*expression); err != nil {
			fail("select", err)
		}
	}
	return choice
}

// selector reads an expression; the zero selector if the parameter is missing.
func (p *params) selector(name string) selector.Selector {
	text := p.text(name)
	if !p.values.Has(name) {
		return selector.Selector{}
	}
	s, err := selector.Parse(text)
	if err != nil {
		p.fail(invalid(name, "%v", err))
	}
	return s
}

// fieldsOf returns the fields of a struct by their names in JSON.
func fieldsOf(t reflect.Type) map[string]reflect.Type {
	fields := make(map[string]reflect.Type, t.NumField())
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" && f.Anonymous {
			maps.Copy(fields, fieldsOf(f.Type))
			continue
		}
		fields[name] = f.Type
	}
	return fields
}

// newTaskID returns an id that is short enough to type. Its 60 random bits only make it unique: the caller's identity
// decides what it may see.
func newTaskID() string { return "op-" + strings.ToLower(rand.Text()[:12]) }

// readBeside completes a start with its wish about copies.
func (r *operationRequest) readBeside() error {
	switch {
	case r.TakeOver && r.Op != process.Start:
		return invalid("take_over", "is not for the operation %s", r.Op)
	case r.Beside && r.Op != process.Start:
		return invalid("beside", "is not for the operation %s", r.Op)
	case r.TakeOver && r.Beside:
		return invalid("beside", "stands beside take_over: expected one of them")
	case r.TakeOver:
		r.Op = process.StartOp(process.TakeOver)
	case r.Beside:
		r.Op = process.StartOp(process.StartBeside)
	}
	return nil
}

// checkHidden rejects a spec with hidden values. A caller who may not see the values has them from an answer: check its
// rights first.
func (r *operationRequest) checkHidden() error {
	if r.Spec == nil {
		return nil
	}
	var faults []error
	for _, name := range slices.Sorted(maps.Keys(r.Spec.Execution.Environment)) {
		if r.Spec.Execution.Environment[name] == secret {
			faults = append(faults, invalid("spec.environment."+name,
				"is %s, which stands for a stored value: expected the value", secret))
		}
	}
	return together(faults...)
}

// checkPlan reports the faults of the values of a plan that were read. Beside other faults nothing else checks them.
func (p *params) checkPlan(o *planOptions) {
	var given v1.RolloutPlan
	for _, change := range o.changes {
		change(&given)
	}
	_, unread := v1.ParseHostCount(p.values.Get("batch"))
	for _, f := range processfile.CheckRollout(&given) {
		if p.values.Get(f.Path) != "" && (f.Path != "batch" || unread == nil) {
			p.fail(invalid(f.Path, "%s", f.Text))
		}
	}
}
