package api

import (
	"encoding/json"
	"errors"
	"time"

	v1 "drover/api/v1"
	"drover/internal/server/api/alarms"
	"drover/internal/server/api/call"
	"drover/internal/server/api/install"
	"drover/internal/server/api/operations"
)

// Faults returns the wrong fields of a request for a receiver, a silence, a schedule or a join token, as far as the
// request alone shows them. It is for a caller that cannot send the request, because it has found other faults.
func Faults(request any, now time.Time) []v1.FieldError {
	var err error
	switch r := request.(type) {
	case v1.ReceiverChange:
		_, err = alarms.NewReceiver(&r)
	case v1.SilenceRequest:
		_, err = alarms.SilenceOf(&r, now)
	case v1.JoinTokenRequest:
		err = install.CheckJoinToken(&r)
	case v1.ScheduleRequest:
		var s operations.ScheduleRequest
		text, _ := json.Marshal(r) // it has only values that JSON has
		if err = json.Unmarshal(text, &s); err == nil {
			_, err = s.Schedule(now)
		}
	}
	p, ok := errors.AsType[*call.Problem](err)
	if !ok {
		return nil
	}
	return p.Fields
}
