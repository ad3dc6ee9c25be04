package httpapi

import (
	"context"
	"errors"
	"net/http"

	"drover/internal/server/admission"
)

// readBody returns the whole body of a request. known is set if the caller is authenticated.
func (s *server) readBody(ctx context.Context, w http.ResponseWriter, r *http.Request, c *call,
	known bool,
) (body []byte, err error) {
	body, c.releaseBody, err = s.Body(ctx, c.Call, w, r, known)
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
	return body, err
}
