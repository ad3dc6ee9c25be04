package gse

import "drover/internal/process"

// MaxPage is the largest page of sync_proc_status, in rows.
const MaxPage = 1000

// StatusQuery asks for the state of one process on many agents.
type StatusQuery struct {
	ID      process.ID
	Targets []Target
}

// ReadStatus reads the body of get_proc_status or get_proc_status_v2.
func ReadStatus(body []byte) (StatusQuery, error) {
	var b operateBody
	if err := scan(body, b.read); err != nil {
		return StatusQuery{}, err
	}
	id, err := b.Meta.id("")
	if err != nil {
		return StatusQuery{}, err
	}
	list, err := b.list("", id, key)
	if err != nil {
		return StatusQuery{}, err
	}
	return StatusQuery{ID: id, Targets: list}, nil
}

// SyncQuery asks for a page of a namespace.
type SyncQuery struct {
	Namespace string
	// Start counts rows from 0; Limit is between 1 and MaxPage.
	Start, Limit int
}

type (
	syncBody struct {
		Meta *meta     `json:"meta"`
		Page *pageBody `json:"page"`
	}
	pageBody struct {
		Start Int `json:"start"`
		Limit Int `json:"limit"`
	}
)

// ReadSync reads the body of sync_proc_status. The default page is the first one, with MaxPage rows.
func ReadSync(body []byte) (SyncQuery, error) {
	var b syncBody
	if err := scan(body, b.read); err != nil {
		return SyncQuery{}, err
	}
	namespace, err := b.Meta.namespace("")
	if err != nil {
		return SyncQuery{}, err
	}
	q := SyncQuery{Namespace: namespace, Limit: MaxPage}
	if b.Page == nil {
		return q, nil
	}
	start, limit := b.Page.Start, b.Page.Limit
	if start.state == bad || start.value < 0 || start.value != int64(int32(start.value)) {
		return SyncQuery{}, misreadf("page.start is out of range: expected 0 or more")
	}
	q.Start = int(start.value)
	if limit.state == absent {
		return q, nil
	}
	// If the limit were cut silently, a caller that steps by its limit would miss rows.
	if limit.state == bad || limit.value < 1 || limit.value > MaxPage {
		return SyncQuery{}, misreadf("page.limit is out of range: expected 1 to %d", MaxPage)
	}
	q.Limit = int(limit.value)
	return q, nil
}

// ReadResult reads the body of get_proc_operate_result and get_proc_operate_result_v2 and returns the task's id, which
// is not empty.
func ReadResult(body []byte) (string, error) {
	const field = "task_id"
	var task Str
	if err := ReadTexts(body, map[string]*Str{field: &task}); err != nil {
		return "", err
	}
	return taskID(field, task)
}

// taskID rejects a missing or an empty task id. A caller that polls with an empty id has not read the answer to its
// submit, and must learn that.
func taskID(field string, v Str) (string, error) {
	if err := v.required(field); err != nil {
		return "", err
	}
	if v.value == "" {
		return "", misreadf("%s is empty", field)
	}
	return v.value, nil
}
