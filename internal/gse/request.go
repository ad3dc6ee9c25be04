package gse

import (
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"drover/internal/process"
)

// Operation is one thing asked of one process on many agents, whatever the family it was asked in.
type Operation struct {
	ID process.ID
	Op process.Op
	// Spec is nil when the caller sent none. Operations of one body that sent the same share it: it must not be changed.
	Spec    *process.Spec
	Targets []Target
	// Problem, when not nil, is the outcome of every target: the operation cannot be carried out as it was asked.
	Problem *process.Error
}

// Target is one agent as the caller spelt it: by AgentID where that is not empty, else by Host.
type Target struct {
	// Key is the result key of the operation on this agent.
	Key     string
	AgentID string
	Host    Host
}

// Asked returns the agent in the caller's spelling.
func (t Target) Asked() string {
	if t.AgentID != "" {
		return t.AgentID
	}
	return t.Host.Agent()
}

// The request bodies. Keys that are not named here are ignored.
type (
	meta struct {
		Namespace Str             `json:"namespace"`
		Name      Str             `json:"name"`
		Labels    json.RawMessage `json:"labels"`
	}
	targets struct {
		Hosts  []host `json:"hosts"`
		Agents []Str  `json:"agent_id_list"`
	}
	host struct {
		IP       Str `json:"ip"`
		Cloud    Int `json:"bk_cloud_id"`
		Supplier Int `json:"bk_supplier_id"`
	}
	operateBody struct {
		Meta *meta `json:"meta"`
		targets
		OpType Int             `json:"op_type"`
		Spec   json.RawMessage `json:"spec"`
	}
	multiBody struct {
		Requests []operateBody `json:"proc_operate_req"`
	}
)

// ReadOperate reads the body of operate_proc_v2. An error means that there is no key to answer for; it names the field.
func ReadOperate(body []byte) ([]Operation, error) {
	var b operateBody
	if err := named("", scan(body, b.read)); err != nil {
		return nil, err
	}
	op, err := b.operation("", specs{})
	if err != nil {
		return nil, err
	}
	return []Operation{op}, nil
}

// ReadOperateMulti reads the body of operate_proc_multi, as ReadOperate does.
func ReadOperateMulti(body []byte) ([]Operation, error) {
	var b multiBody
	if err := named("", scan(body, b.read)); err != nil {
		return nil, err
	}
	if len(b.Requests) == 0 {
		return nil, errors.New("proc_operate_req is missing")
	}
	ops, seen := make([]Operation, 0, len(b.Requests)), make(specs)
	for i := range b.Requests {
		op, err := b.Requests[i].operation(fmt.Sprintf("proc_operate_req[%d].", i), seen)
		if err != nil {
			return nil, err
		}
		ops = append(ops, op)
	}
	return ops, nil
}

// ReadOperateRegistered reads the body of operate_proc, whose keys carry the supplier. The spec is the registered one, and
// nil here, unless the body brings one along.
func ReadOperateRegistered(body []byte) ([]Operation, error) {
	var b operateBody
	if err := named("", scan(body, b.read)); err != nil {
		return nil, err
	}
	id, err := b.Meta.id("")
	if err != nil {
		return nil, err
	}
	if b.OpType.state == absent {
		return nil, errors.New("op_type is missing")
	}
	list, err := b.list("", id, keyWithSupplier)
	if err != nil {
		return nil, err
	}
	o := Operation{ID: id, Targets: list}
	spec, err := readSpec("", b.Spec)
	if err != nil {
		return nil, err
	}
	var faults []process.FieldFault
	if spec != nil && spec.Identity != nil {
		o.Spec, faults = spec.translate(b.Meta.Labels, registered)
	}
	o.setOp(b.OpType, opOf)
	if o.Spec != nil || o.Problem != nil {
		o.settle(o.faults(faults))
	} else if problem := (*process.Error)(nil); errors.As(process.ValidateID(id), &problem) {
		o.Problem = problem
	}
	return []Operation{o}, nil
}

// ReadRegistration reads the body of register_proc_info, update_proc_info or unregister_proc_info, whose keys carry the
// supplier.
func ReadRegistration(body []byte, op process.Op) ([]Operation, error) {
	var b operateBody
	if err := named("", scan(body, b.read)); err != nil {
		return nil, err
	}
	id, err := b.Meta.id("")
	if err != nil {
		return nil, err
	}
	list, err := b.list("", id, keyWithSupplier)
	if err != nil {
		return nil, err
	}
	sent, err := readSpec("", b.Spec)
	if err != nil {
		return nil, err
	}
	spec, faults := sent.translate(b.Meta.Labels, registered)
	o := Operation{ID: id, Op: op, Spec: spec, Targets: list}
	o.settle(o.faults(faults))
	return []Operation{o}, nil
}

func (b *operateBody) operation(at string, seen specs) (Operation, error) {
	id, err := b.Meta.id(at)
	if err != nil {
		return Operation{}, err
	}
	if b.OpType.state == absent {
		return Operation{}, fmt.Errorf("%sop_type is missing", at)
	}
	list, err := b.list(at, id, key)
	if err != nil {
		return Operation{}, err
	}
	sent, err := seen.read(at, b.Spec, b.Meta.Labels)
	if err != nil {
		return Operation{}, err
	}
	o := Operation{ID: id, Spec: sent.spec, Targets: list}
	o.setOp(b.OpType, opOf)
	o.settle(o.faults(sent.faults))
	return o, nil
}

// setOp takes over an op_type; one that means nothing is the problem of this operation alone.
func (o *Operation) setOp(opType Int, meaning func(int64) (process.Op, bool)) {
	if op, ok := meaning(opType.value); ok && opType.state == given {
		o.Op = op
		return
	}
	shown := opType.raw
	if opType.state == given {
		shown = fmt.Sprint(opType.value)
	}
	o.Op = process.Op("op_type " + shown)
	o.Problem = process.Errorf(process.IllegalOp, "op_type %s is not an operation", shown)
}

// faults returns all that only the operation's own words show to be wrong with it; read is what could not be read. Query and
// unhost look at nothing but the name: callers send them with an almost empty spec.
func (o *Operation) faults(read []process.FieldFault) []process.FieldFault {
	var list []process.FieldFault
	if err := process.ValidateID(o.ID); err != nil {
		list = append(list, process.FieldFault{Field: "meta", Text: err.Error()})
	}
	if o.Op == process.Query || o.Op == process.Unhost || o.Op == process.Unregister {
		return list
	}
	list = append(list, read...)
	spec := o.Spec
	if spec == nil {
		spec = &process.Spec{}
	}
	for _, f := range spec.Faults(o.Op) {
		// What could not be read is empty now: that would be told twice.
		if !slices.ContainsFunc(read, func(r process.FieldFault) bool { return path.Ext(r.Field) == path.Ext(f.Field) }) {
			list = append(list, f)
		}
	}
	return list
}

// settle sets the problem of an operation that cannot be carried out.
func (o *Operation) settle(faults []process.FieldFault) {
	if o.Problem == nil {
		o.Problem = problemOf(faults)
	}
}

// problemOf makes one problem of all faults; nil when there are none.
func problemOf(faults []process.FieldFault) *process.Error {
	problem, _ := errors.AsType[*process.Error](process.JoinFaults(faults))
	return problem
}

// id returns the process that is meant; the two words must be there, whatever they are.
func (m *meta) id(at string) (process.ID, error) {
	namespace, err := m.namespace(at)
	if err != nil {
		return process.ID{}, err
	}
	if err := m.Name.required(at + "meta.name"); err != nil {
		return process.ID{}, err
	}
	return process.ID{Namespace: namespace, Name: m.Name.value}, nil
}

func (m *meta) namespace(at string) (string, error) {
	if m == nil {
		return "", fmt.Errorf("%smeta is missing", at)
	}
	if err := m.Namespace.required(at + "meta.namespace"); err != nil {
		return "", err
	}
	return m.Namespace.value, nil
}

// decode reads JSON that may hold anything. A value of the wrong shape is named by its path.
func decode(body []byte, into any) error { return named("", json.Unmarshal(body, into)) }

// named is an error of reading JSON in words for its sender, who calls what was read at and a dot.
func named(at string, err error) error {
	if shape := (*json.UnmarshalTypeError)(nil); errors.As(err, &shape) {
		field := strings.TrimSuffix(at+shape.Field, ".")
		if field == "" {
			field = "the body"
		}
		return fmt.Errorf("%s is of the wrong type: %s", field, shape.Value)
	}
	if err != nil {
		return fmt.Errorf("cannot read JSON: %w", err)
	}
	return nil
}
