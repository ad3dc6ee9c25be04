package httpapi

import (
	"context"
	"errors"
	"net/http"

	"drover/internal/server/admission"
)

// readBody returns the whole body of a request; release gives its room back once nobody needs it any more. known tells
// that the caller has been authenticated.
func (s *server) readBody(ctx context.Context, w http.ResponseWriter, r *http.Request,
	known bool,
) (body []byte, release func(), err error) {
	body, release, err = s.Rooms.Body(ctx, w, r, known)
	switch {
	case err == nil:
	case errors.Is(err, admission.ErrTooLarge) && known:
		err = refusef(tooLarge, "request body is larger than %d MB", admission.MostKnown>>20)
	case errors.Is(err, admission.ErrTooLarge):
		err = refusef(tooLarge,
			"request body is larger than %d MB: larger ones need the credentials in X-Bkapi-Authorization",
			admission.MostStrange>>20)
	case errors.Is(err, admission.ErrFull):
		err = refusef(tooMany, "too many large requests at the same time, try again later")
	case errors.Is(err, admission.ErrTooSlow):
		err = refusef(badRequest, "request body arrives too slowly")
	default:
		err = refusef(badRequest, "request body could not be read to its end")
	}
	return body, release, err
}

// roomToParse waits until there is room for what the parameters are parsed into.
func (s *server) roomToParse(ctx context.Context, c *call) error {
	leave, err := s.Rooms.Parse(ctx, c.principal.App, c.params)
	if err != nil {
		return refusef(tooMany, "too many large requests at the same time, try again later")
	}
	release := c.release
	c.release = func() {
		leave()
		release()
	}
	return nil
}
