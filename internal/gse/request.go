package gse

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"drover/internal/process"
	"drover/internal/spec"
)

// Operation is one operation on one process of many agents, from any of the APIs.
type Operation struct {
	ID process.ID
	Op process.Op
	// Spec is nil if the caller sent none. Operations of one body with the same spec share it: it must not be changed.
	Spec    *process.Spec
	Targets []Target
	// Problem, if not nil, is the outcome of every target: the operation cannot be carried out.
	Problem *process.Error
}

// Target is one agent in the caller's spelling: AgentID, or Host if AgentID is empty.
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

// The request bodies. drover ignores keys that are not named here.
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

// ReadOperate reads the body of operate_proc_v2. An error names the field; after it there is no key for an answer.
func ReadOperate(body []byte) ([]Operation, error) {
	var b operateBody
	if err := scan(body, b.read); err != nil {
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
	if err := scan(body, b.read); err != nil {
		return nil, err
	}
	if len(b.Requests) == 0 {
		return nil, missing("proc_operate_req")
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

// ReadOperateRegistered reads the body of operate_proc, whose keys contain the supplier. Spec is nil unless the body
// has a spec; the registered spec applies then.
func ReadOperateRegistered(body []byte) ([]Operation, error) {
	var b operateBody
	if err := scan(body, b.read); err != nil {
		return nil, err
	}
	id, err := b.Meta.id("")
	if err != nil {
		return nil, err
	}
	if b.OpType.state == absent {
		return nil, missing("op_type")
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
	var sent readySpec
	if spec != nil && spec.Identity != nil {
		sent = spec.translate(b.Meta.Labels, registered)
	}
	o.Spec = sent.spec
	if err := fits("spec", o.Spec); err != nil {
		return nil, err
	}
	o.setOp(b.OpType, process.OpOfGSE)
	if o.Spec != nil || o.Problem != nil {
		o.settle(o.faults(sent.faults, sent.words.spelt))
	} else if problem := (*process.Error)(nil); errors.As(process.ValidateID(id), &problem) {
		o.Problem = problem
	}
	return []Operation{o}, nil
}

// ReadRegistration reads the body of register_proc_info, update_proc_info or unregister_proc_info, whose keys carry the
// supplier.
func ReadRegistration(body []byte, op process.Op) ([]Operation, error) {
	var b operateBody
	if err := scan(body, b.read); err != nil {
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
	ready := sent.translate(b.Meta.Labels, registered)
	if err := fits("spec", ready.spec); err != nil {
		return nil, err
	}
	o := Operation{ID: id, Op: op, Spec: ready.spec, Targets: list}
	o.settle(o.faults(ready.faults, ready.words.spelt))
	return []Operation{o}, nil
}

func (b *operateBody) operation(at string, seen specs) (Operation, error) {
	id, err := b.Meta.id(at)
	if err != nil {
		return Operation{}, err
	}
	if b.OpType.state == absent {
		return Operation{}, missing(at + "op_type")
	}
	list, err := b.list(at, id, key)
	if err != nil {
		return Operation{}, err
	}
	sent, err := seen.read(at, b.Spec, b.Meta.Labels)
	if err != nil {
		return Operation{}, err
	}
	if err := fits(at+"spec", sent.spec); err != nil {
		return Operation{}, err
	}
	o := Operation{ID: id, Spec: sent.spec, Targets: list}
	o.setOp(b.OpType, process.OpOfGSE)
	o.settle(o.faults(sent.faults, sent.words.spelt))
	return o, nil
}

// setOp sets the operation of an op_type. An unknown op_type is a problem of this operation only.
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

// faults returns all faults that the operation itself shows. read has the unreadable fields, and spelt replaces the
// field of a fault by the caller's name. Query and unhost use only the name: callers send them with an almost empty
// spec.
func (o *Operation) faults(read []process.FieldFault,
	spelt func(process.FieldFault) process.FieldFault,
) []process.FieldFault {
	var list []process.FieldFault
	if err := process.ValidateID(o.ID); err != nil {
		list = append(list, spelt(process.FieldFault{Field: "meta", Text: err.Error()}))
	}
	if o.Op.Info().Spec == process.SpecIgnored {
		return list
	}
	list = append(list, read...)
	s := o.Spec
	if s == nil {
		s = &process.Spec{Compat: &spec.Compat{}}
	}
	for _, f := range process.Faults(s, o.Op) {
		f = spelt(f)
		// An unreadable field is empty now: do not report it twice.
		if !slices.ContainsFunc(read, func(r process.FieldFault) bool { return r.Field == f.Field }) {
			list = append(list, f)
		}
	}
	return list
}

// fits rejects a spec that is too large to store with the operation, even if the operation ignores the spec.
func fits(field string, spec *process.Spec) error {
	if n := process.Size(spec); n > process.MaxSpec {
		return misreadf("%s is %d bytes long in all: expected at most %d", field, n, process.MaxSpec)
	}
	return nil
}

// settle sets the problem of an operation with faults.
func (o *Operation) settle(faults []process.FieldFault) {
	if o.Problem == nil {
		o.Problem = problemOf(faults)
	}
}

// problemOf joins all faults into one problem; nil if there are none.
func problemOf(faults []process.FieldFault) *process.Error {
	problem, _ := errors.AsType[*process.Error](process.JoinFaults(faults))
	return problem
}

// id returns the process of a request. Both names must be there; id does not check them further.
func (m *meta) id(at string) (process.ID, error) {
	namespace, err := m.namespace(at)
	if err != nil {
		return process.ID{}, err
	}
	if err := m.Name.short(at + "meta.name"); err != nil {
		return process.ID{}, err
	}
	return process.ID{Namespace: namespace, Name: m.Name.value}, nil
}

func (m *meta) namespace(at string) (string, error) {
	if m == nil {
		return "", missing(at + "meta")
	}
	if err := m.Namespace.short(at + "meta.namespace"); err != nil {
		return "", err
	}
	return m.Namespace.value, nil
}
