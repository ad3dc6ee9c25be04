// Package gse holds the JSON shapes of the BlueKing GSE and JOB process APIs and translates them to and from package
// process: it reads request bodies, and writes result keys, codes, content documents and status rows. It is the only
// package that knows error codes; process.Ops has the op_type numbers. It does no I/O: HTTP, credentials and envelopes
// belong to httpapi.
package gse

import "drover/internal/process"

// The codes of one process's result. All other codes come from Code.
const (
	CodeSuccess  = 0
	CodeHandling = 115
)

// textHandling is the error_msg of a result that does not exist yet.
const textHandling = "handling"

// Code returns the error_code of a fault. A fault it does not know is a plain failure.
func Code(f process.Fault) int {
	switch f {
	case process.None:
		return CodeSuccess
	case process.AgentUnavailable:
		return 117
	case process.AlreadyRunning:
		return 828
	case process.NotRunning:
		return 829
	case process.IllegalOp:
		return 832
	case process.CheckFailed:
		return 836
	case process.AlreadyRegistered:
		return 850
	case process.Failed, process.Cancelled:
		return 65535
	default:
		return 65535
	}
}

// kindOf returns the kind of an auto_type.
func kindOf(autoType int64) (process.Kind, bool) {
	switch autoType {
	case 0:
		return process.Periodic, true
	case 1:
		return process.Resident, true
	case 2:
		return process.SingleRun, true
	default:
		return "", false
	}
}
