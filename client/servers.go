package client

import (
	"errors"
	"net"
	"net/http"
	"net/url"
	"sync/atomic"
)

// servers sends each call to one of several servers of a fleet: to the one that took the last call, or else to the next
// one that takes a connection. A call that a server may have received goes to no other one.
type servers struct {
	network http.RoundTripper
	all     []*url.URL
	// present is the place of the server that took the last call.
	present atomic.Int64
}

// RoundTrip implements http.RoundTripper.
func (s *servers) RoundTrip(req *http.Request) (resp *http.Response, err error) {
	first := int(s.present.Load())
	for n := range s.all {
		place := (first + n) % len(s.all)
		try := req.Clone(req.Context())
		try.URL.Scheme, try.URL.Host, try.Host = s.all[place].Scheme, s.all[place].Host, ""
		if n > 0 && req.GetBody != nil {
			if try.Body, err = req.GetBody(); err != nil {
				return nil, err
			}
		}
		resp, err = s.network.RoundTrip(try)
		if failure, ok := errors.AsType[*net.OpError](err); ok && failure.Op == "dial" && req.Context().Err() == nil {
			continue
		}
		s.present.Store(int64(place))
		return resp, err
	}
	return resp, err
}
