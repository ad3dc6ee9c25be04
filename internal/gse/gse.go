// Package gse holds the JSON shapes of the BlueKing GSE and JOB process APIs and translates them to and from package
// process: it reads request bodies, and writes result keys, codes, content documents and status rows. It is the only
// package that knows op_type numbers and error codes. It does no I/O: HTTP, credentials and envelopes belong to
// httpapi.
package gse

import "drover/internal/process"

// Codes of one process's result. Every other code comes from Code.
const (
	CodeSuccess  = 0
	CodeHandling = 115
)

// textHandling is the error_msg of a result that is not there yet.
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
	case process.Failed:
		return 65535
	default:
		return 65535
	}
}

// opOf returns the operation of an op_type; there is no 5 and no 6.
func opOf(opType int64) (process.Op, bool) {
	switch opType {
	case 0:
		return process.Start, true
	case 1:
		return process.Stop, true
	case 2:
		return process.Query, true
	case 3:
		return process.Host, true
	case 4:
		return process.Unhost, true
	case 7:
		return process.Restart, true
	case 8:
		return process.Reload, true
	case 9:
		return process.Kill, true
	default:
		return "", false
	}
}

// manageOpOf returns the operation of JOB's manage_proc, where 1 and 2 have a meaning of their own.
func manageOpOf(opType int64) (process.Op, bool) {
	switch opType {
	case 1:
		return process.Host, true
	case 2:
		return process.Unhost, true
	default:
		return "", false
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
