package server

import "errors"

// Met returns nil once the agent has introduced itself to this server, so that what is asked about it is answered from
// its own word.
func (s *Server) Met(agent string) error {
	if !s.directory.Introduction(agent) {
		return errors.New("the agent has not introduced itself yet")
	}
	return nil
}
