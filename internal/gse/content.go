package gse

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"drover/internal/process"
)

// Item is the state of one operation on one process of one agent, for a poll.
type Item struct {
	// Asked is the agent in the caller's spelling; IP its address, as far as it is known.
	Asked      string
	IP         string
	Op         process.Op
	Process    process.ID
	ProcName   string
	SetupPath  string
	FuncID     string
	InstanceID string
	// Outcome is nil while the operation is under way.
	Outcome *process.Outcome
}

// Entry is the value of one result key.
type Entry struct {
	ErrorCode int    `json:"error_code"`
	ErrorMsg  string `json:"error_msg"`
	// Content is a string, except in a finished result of JOB, which has a document.
	Content any `json:"content"`
}

// Result returns the entry of an item for a GSE caller. Local times are given in the zone of now.
func Result(it Item, now time.Time) Entry {
	if it.Outcome == nil {
		return handling()
	}
	entry := entryOf(it.Outcome)
	entry.Content = text(document(it, it.Process.Name, now))
	return entry
}

// JobResult returns the entry of an item for a JOB caller.
func JobResult(it Item, now time.Time) Entry {
	if it.Outcome == nil {
		return handling()
	}
	outcome := *it.Outcome
	outcome.Text = respelt(outcome.Text, jobField)
	it.Outcome = &outcome
	entry := entryOf(it.Outcome)
	// JOB shows the binary's name in both fields; GSE shows the process's name in one of them.
	entry.Content = document(it, procName(it), now)
	return entry
}

// RegistrationResult returns the entry of an item of a registration call, which has no content.
func RegistrationResult(it Item) Entry {
	if it.Outcome == nil {
		return handling()
	}
	return entryOf(it.Outcome)
}

func handling() Entry { return Entry{ErrorCode: CodeHandling, ErrorMsg: textHandling, Content: ""} }

// entryOf returns the entry without its content. The message of a success is always the same text, because callers
// compare it; hints are shown elsewhere.
func entryOf(o *process.Outcome) Entry {
	if o.Fault == process.None {
		return Entry{ErrorCode: CodeSuccess, ErrorMsg: process.Success, Content: ""}
	}
	return Entry{ErrorCode: Code(o.Fault), ErrorMsg: respelt(o.Text, gseField), Content: ""}
}

// respelt replaces the field at the start of a fault by the caller's name for it, because the agent does not know the
// caller. It does not change a text that begins otherwise, because the text may contain the output of a command.
func respelt(text string, spelt func(field string) string) string {
	if !strings.HasPrefix(text, "spec.") {
		return text
	}
	end := strings.IndexAny(text, ": ")
	if end < 0 {
		return text
	}
	return spelt(text[:end]) + text[end:]
}

// gseField is the name of a spec's field that every GSE caller knows: the policy has several names.
func gseField(field string) string { return strings.TrimPrefix(field, "spec.monitor_policy.") }

// document returns the value of content, for failures too: callers decode the content of every key as soon as no key
// is at 115.
func document(it Item, processName string, now time.Time) any {
	if it.Op == process.Query {
		return query(it, processName, now)
	}
	return valueDocument{Value: []value{{
		AgentID:    it.Asked,
		ProcName:   it.ProcName,
		SetupPath:  it.SetupPath,
		FuncID:     it.FuncID,
		InstanceID: it.InstanceID,
		Result:     entryOf(it.Outcome).ErrorMsg,
		IsAuto:     it.Outcome.Hosted,
	}}}
}

// The document of every operation but a query; there is always exactly one value.
type (
	valueDocument struct {
		Value []value `json:"value"`
	}
	value struct {
		AgentID    string `json:"bk_agent_id"`
		ProcName   string `json:"procName"`
		SetupPath  string `json:"setupPath"`
		FuncID     string `json:"funcID"`
		InstanceID string `json:"instanceID"`
		Result     string `json:"result"`
		IsAuto     bool   `json:"isAuto"`
	}
)

// The document of a query. It always has exactly one process with exactly one instance.
type (
	queryDocument struct {
		IP      string `json:"ip"`
		AgentID string `json:"bk_agent_id"`
		// LocalTime is the local time and UTCTime is UTC, although their JSON names suggest otherwise. Both are empty
		// if the process was never seen.
		LocalTime string         `json:"utctime"`
		UTCTime   string         `json:"utctime2"`
		Timezone  int            `json:"timezone"` // hours east of UTC
		Process   []queryProcess `json:"process"`
	}
	queryProcess struct {
		ProcName string     `json:"procname"`
		Instance []instance `json:"instance"`
	}
	// instance has the JSON types that strict readers require: utime, stime and freeVMem are strings.
	instance struct {
		ProcessName string `json:"processName"`
		queryUsage
		PID           int    `json:"pid"` // -1 when nothing runs, never 0
		IsAuto        bool   `json:"isAuto"`
		Version       string `json:"version"`
		Health        string `json:"health"`
		Cmdline       string `json:"cmdline"`
		Stat          string `json:"stat"`
		StartTime     string `json:"startTime"`
		ElapsedTime   int64  `json:"elapsedTime"`
		RegisterTime  int64  `json:"register_time"`
		LastStartTime int64  `json:"last_start_time"`
		ReportTime    int64  `json:"report_time"`
	}
	queryUsage struct {
		CPU         float64 `json:"cpuUsage"`
		CPUAverage  float64 `json:"cpuUsageAve"`
		Mem         float64 `json:"phyMemUsage"`
		RSS         int64   `json:"usePhyMem"`
		Disk        int     `json:"diskSize"` // not measured: always -1
		UserTime    string  `json:"utime"`
		SystemTime  string  `json:"stime"`
		FreeVirtual string  `json:"freeVMem"` // meaningless on Linux: always "0"
		Threads     int     `json:"threadCount"`
	}
)

func query(it Item, processName string, now time.Time) queryDocument {
	var s process.Status
	if it.Outcome.Status != nil {
		s = *it.Outcome.Status
	}
	doc := queryDocument{
		IP:       it.IP,
		AgentID:  it.Asked,
		Timezone: hoursEast(now),
		Process: []queryProcess{{
			ProcName: procName(it),
			Instance: []instance{instanceOf(s, processName, it.Outcome.Hosted || s.Hosted, now.Location())},
		}},
	}
	if doc.IP == "" {
		doc.IP = HostOf(it.Asked).IP
	}
	if s.ReportedAt > 0 {
		seen := time.Unix(s.ReportedAt, 0).In(now.Location())
		doc.Timezone = hoursEast(seen)
		doc.LocalTime = seen.Format(time.DateTime)
		doc.UTCTime = seen.UTC().Format(time.DateTime)
	}
	return doc
}

func instanceOf(s process.Status, processName string, hosted bool, zone *time.Location) instance {
	i := instance{
		ProcessName:   processName,
		queryUsage:    queryUsage{Disk: -1, UserTime: "0", SystemTime: "0", FreeVirtual: "0"},
		PID:           -1,
		IsAuto:        hosted,
		RegisterTime:  s.RegisteredAt,
		LastStartTime: s.LastStartAt,
		ReportTime:    s.ReportedAt,
	}
	if !s.Running() {
		return i
	}
	p := s.Instance
	i.PID = p.PID
	i.Version, i.Health = p.Version, p.Health
	i.Cmdline, i.Stat, i.ElapsedTime = p.Cmdline, p.Stat, p.Elapsed
	i.CPU, i.CPUAverage, i.Mem, i.RSS = p.CPU, p.CPUAverage, p.Mem, p.RSS
	i.UserTime, i.SystemTime, i.Threads = seconds(p.UserTime), seconds(p.SystemTime), p.Threads
	if p.StartedAt > 0 {
		i.StartTime = time.Unix(p.StartedAt, 0).In(zone).Format(time.DateTime)
	}
	return i
}

// procName returns the name of the executable: from the request, else from the spec in force.
func procName(it Item) string {
	if it.ProcName == "" && it.Outcome.Status != nil {
		return it.Outcome.Status.ProcName
	}
	return it.ProcName
}

func hoursEast(t time.Time) int {
	_, offset := t.Zone()
	return offset / 3600
}

func seconds(s float64) string { return strconv.FormatFloat(s, 'f', 2, 64) }

// text returns the document as a string, which GSE callers decode again.
func text(document any) string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(document); err != nil {
		return "" // unreachable: strings, integers and floats from JSON always encode again
	}
	return string(bytes.TrimSuffix(b.Bytes(), []byte("\n")))
}
