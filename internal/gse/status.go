package gse

import (
	"encoding/json"

	"drover/internal/process"
)

// Row is one element of proc_infos.
type Row struct {
	Meta    RowMeta `json:"meta"`
	Host    Host    `json:"host"`
	AgentID string  `json:"bk_agent_id"`
	// Flag is the expected state: 0 none, 1 running, 2 stopped.
	Flag int `json:"flag"`
	// Status is the state that was seen: 0 unknown, 1 running, 2 stopped.
	Status        int     `json:"status"`
	IsAuto        bool    `json:"isauto"`
	Message       string  `json:"message"`
	PID           int     `json:"pid"` // -1 when nothing runs
	Version       string  `json:"version"`
	RegisterTime  int64   `json:"register_time"`
	LastStartTime int64   `json:"last_start_time"`
	ReportTime    int64   `json:"report_time"`
	CPU           float64 `json:"cpu_usage"`
	Mem           float64 `json:"mem_usage"`
	rowReserved
}

// RowMeta names the process of a row.
type RowMeta struct {
	Namespace string          `json:"namespace"`
	Name      string          `json:"name"`
	Labels    json.RawMessage `json:"labels"`
}

// rowReserved has the documented columns that drover does not measure yet.
type rowReserved struct {
	FD   int64 `json:"fd"`
	Disk int64 `json:"disk"`
	Net  int64 `json:"net"`
}

// RowOf returns the row of a process that an agent has reported. spec may be nil.
func RowOf(id process.ID, h Host, agentID string, s process.Status, spec *process.Spec) Row {
	r := UnknownRow(id, h, agentID, s.Message)
	if spec != nil {
		if labels := spec.LabelsJSON(); labels != nil {
			r.Meta.Labels = labels
		}
	}
	r.Flag = flagOf(s.Want)
	r.IsAuto = s.Hosted
	r.RegisterTime, r.LastStartTime, r.ReportTime = s.RegisteredAt, s.LastStartAt, s.ReportedAt
	switch {
	case s.Running():
		r.Status = 1
		r.PID = s.Instance.PID
		r.Version = s.Instance.Version
		r.CPU, r.Mem = s.Instance.CPU, s.Instance.Mem
	case s.Known:
		r.Status = 2
	}
	return r
}

// UnknownRow returns the row of an unknown process; message says why it is unknown.
func UnknownRow(id process.ID, h Host, agentID, message string) Row {
	return Row{
		Meta:    RowMeta{Namespace: id.Namespace, Name: id.Name, Labels: json.RawMessage("{}")},
		Host:    h,
		AgentID: agentID,
		Message: message,
		PID:     -1,
	}
}

func flagOf(w process.Want) int {
	switch w {
	case process.WantRunning:
		return 1
	case process.WantStopped:
		return 2
	case process.WantNothing:
		return 0
	default:
		return 0
	}
}
